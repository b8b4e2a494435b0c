"""The report: a table by contestant and distance, a table of the relay, and the bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.compare.bars import OURS, Bar
from bench.compare.contestant import Contestant
from bench.compare.stats import Rows
from bench.compare.tables import written
from bench.rtt.plan import MANY_THREADS, NO_OPS, PICK_UP, SHORT_JOBS, THREADS, name_of

HEADS = (
    "",
    "round trip, ms",
    f"no-ops/s, concurrency {THREADS}",
    "of those at 0 ms",
    f"10 ms jobs/s, concurrency {MANY_THREADS}",
    "push to start p50, ms",
    "p99, ms",
    "CPU of the relay, cores",
)
RELAY_HEADS = ("round trip, ms", "PING p50, ms", "p99, ms", "requests/s of 10 clients", "MB/s")


def report(about: Mapping[str, Any], rows: Rows, contestants: Sequence[Contestant]) -> str:
    """Return the report for the performance page."""
    return "\n\n".join(
        (
            _introduction(about),
            _table(HEADS, (cells for one in contestants for cells in _cells(about, rows, one.name))),
            "**The relay alone**",
            _table(RELAY_HEADS, (_relay_cells(relay) for relay in about["relay"])),
            "**Bars**",
            "```text\n" + "\n".join(str(bar) for bar in bars(about["round_trips_ms"], rows)) + "\n```",
        )
    )


def _introduction(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    before, after = about["load"]
    return (
        f"{about['date']}, {about['cpus']} CPUs ({about['cpu']}), CPython {about['python']}, Redis {about['redis']} "
        f"on loopback without persistence; {versions}. Medians of the undisturbed ones "
        f"of {about['rounds']} rounds, with their range; `n = 1` marks a single round. The load "
        f"average was {before:.1f} before the run and {after:.1f} at its end; the run itself adds about 1.5. "
        "`~` marks a figure that other programs disturbed in each round."
    )


def _cells(about: Mapping[str, Any], rows: Rows, contestant: str) -> Iterator[tuple[str, ...]]:
    def cell(test: str, rtt_ms: float, figure: str, digits: int = 0) -> str:
        return written(rows.summary(name_of(test, rtt_ms), contestant, figure), digits)

    for rtt_ms in about["round_trips_ms"]:
        share = _share(rows, contestant, rtt_ms)
        yield (
            contestant,
            f"{rtt_ms:g}",
            cell(NO_OPS, rtt_ms, "rate"),
            "–" if share is None else f"{share:.2f}",  # noqa: RUF001
            cell(SHORT_JOBS, rtt_ms, "rate"),
            cell(PICK_UP, rtt_ms, "p50", 2),
            cell(PICK_UP, rtt_ms, "p99", 2),
            cell(NO_OPS, rtt_ms, "proxy_cores", 2),
        )


def _relay_cells(relay: Mapping[str, float]) -> tuple[str, ...]:
    return (
        f"{relay['rtt_ms']:g}",
        f"{relay['p50']:.2f}",
        f"{relay['p99']:.2f}",
        f"{relay['requests']:,.0f}",
        f"{relay['mb']:,.0f}",
    )


def _table(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _share(rows: Rows, contestant: str, rtt_ms: float, test: str = NO_OPS) -> float | None:
    """Return the share of the rate at 0 ms: the median of the ratios within each round, so a slow round counts once."""
    near = {sample.repeat: sample for sample in rows.samples(name_of(test, 0), contestant) if sample.figures}
    far = [sample for sample in rows.samples(name_of(test, rtt_ms), contestant) if sample.figures]
    ratios = sorted(
        sample.figures["rate"] / near[sample.repeat].figures["rate"] for sample in far if sample.repeat in near
    )
    return ratios[len(ratios) // 2] if ratios else None


def bars(round_trips_ms: Sequence[float], rows: Rows) -> list[Bar]:
    """Return offsider's targets. They do not affect the exit code."""

    def rate(test: str, rtt_ms: float, contestant: str = OURS) -> float | None:
        return rows.value(name_of(test, rtt_ms), contestant, "rate")

    def lead(test: str, rtt_ms: float) -> float | None:
        ours = rate(test, rtt_ms)
        rivals = [rate(test, rtt_ms, name) for name in rows.contestants(name_of(test, rtt_ms)) if name != OURS]
        fastest = max((one for one in rivals if one), default=None)
        return ours / fastest if ours and fastest else None

    found = [
        Bar("no-ops at 1 ms: share of those at 0 ms", _share(rows, OURS, 1.0), 0.8),
        Bar("no-ops at 5 ms, jobs/s", rate(NO_OPS, 5.0), 20_000),
        # The threads allow 5,000/s at any distance; what the machine reaches is its rate at 0 ms.
        Bar("10 ms at 5 ms: share of those at 0 ms", _share(rows, OURS, 5.0, SHORT_JOBS), 0.9),
    ]
    for test in (NO_OPS, SHORT_JOBS):
        found += [Bar(f"{name_of(test, one)}: times the fastest rival's", lead(test, one), 1) for one in round_trips_ms]
    return found
