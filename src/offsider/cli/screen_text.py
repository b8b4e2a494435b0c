"""The text of blocks and cells of screens, for the terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from offsider.cli.text import ago, aligned, duration, plain

_MAX_LETTERS = 60
_BARS = " ▁▂▃▄▅▆▇█"


def table_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a table, without columns that contain only buttons."""
    if not shown["rows"]:
        yield shown["empty"]
        return
    rows = [[*map(cell_text, row)] for row in shown["rows"]]
    kept = [at for at, title in enumerate(shown["columns"]) if title or any(row[at] for row in rows)]
    head = [shown["columns"][at].upper() for at in kept]
    shown_rows = [[row[at] for at in kept] for row in rows]
    yield from aligned([head, *shown_rows], [kept.index(at) for at in shown["numeric"]])


def chart_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """Yield each series, or each range with a count, as a sparkline with its sum, and the marks."""
    heat, unit = shown["is"] == "heat", shown.get("unit", "")
    series = [row for row in reversed(shown["rows"]) if any(row["values"])] if heat else shown["bars"]
    count = max((len(each["values"]) for each in series), default=0)
    ends_at = shown["starts_at"] + shown["step_seconds"] * count
    yield from ("", f"{shown['title']}, {_clock(shown['starts_at'])} to {_clock(ends_at)} UTC")
    highest = max((value for each in series for value in each["values"]), default=0.0)
    rows = [(each["name"], _spark(each["values"], highest), _amount(each["values"], unit)) for each in series]
    yield from aligned(rows) if rows else ("No data.",)
    yield from (f"{_clock(mark['at'])} {plain(mark['label'], _MAX_LETTERS)}" for mark in shown["marks"])


def _amount(values: Sequence[float], unit: str) -> str:
    return f"highest {max(values, default=0):g} {unit}" if unit else f"total {sum(values):,}"


def _spark(values: Sequence[float], highest: float) -> str:
    """Return values as bars, at most `_MAX_LETTERS`; of several values that share a bar, the highest."""
    together = max(1, -(-len(values) // _MAX_LETTERS))
    shown = (max(values[at : at + together]) for at in range(0, len(values), together))
    return "".join(_BARS[math.ceil(value * (len(_BARS) - 1) / highest)] if value > 0 else _BARS[0] for value in shown)


def _clock(at: float) -> str:
    return time.strftime("%H:%M", time.gmtime(at))


def cell_text(cell: Mapping[str, Any]) -> str:
    """Return the text of a cell."""
    return _TEXTS[cell["is"]](cell)


def _number(value: float, digits: int) -> str:
    return f"{int(value):,}" if digits == 0 else f"{value:,.2f}"


def _length(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else duration(seconds)


def _done_of(done: float, total: float | None) -> str:
    return f"{done:g}" if total is None else f"{done:g}/{total:g}"


#: The text of each kind of cell.
_TEXTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text": lambda cell: plain(cell["text"], _MAX_LETTERS),
    "link": lambda cell: plain(cell["text"], _MAX_LETTERS) + (f" {cell['count']:,}" if "count" in cell else ""),
    "badge": lambda cell: plain(cell["text"], _MAX_LETTERS),
    "links": lambda cell: " ".join(map(cell_text, cell["links"])),
    "button": lambda _: "",
    "time": lambda cell: ago(cell["at"], time.time()) or "-",
    "duration": lambda cell: _length(cell["seconds"]),
    "number": lambda cell: _number(cell["value"], cell["digits"]),
    "progress": lambda cell: _done_of(cell["done"], cell["total"]),
    "spark": lambda cell: _spark(cell["values"], max(cell["values"], default=0.0)),
}
