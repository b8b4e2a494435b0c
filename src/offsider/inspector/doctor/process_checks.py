"""Check the workers: presence, heartbeats, distance, interrupts, the GIL and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.doctor.facts import Facts, worker_command
from offsider.inspector.doctor.server_checks import check_wire_version
from offsider.inspector.finding import Finding, ok, warn
from offsider.inspector.process import Process

DRIFT_SECONDS = 1.0
#: A process sends a heartbeat every 10 s. After this long without one it hangs, or its clock is wrong.
SILENT_SECONDS = 25.0
SLOW_MICROSECONDS = 50_000
#: A starting process is short of CPU, and its round trip is measured only by its last heartbeat.
YOUNG_SECONDS = 60.0


def check_presence(facts: Facts) -> Iterator[Finding]:
    """Check that workers are registered."""
    if facts.processes:
        busy = sum(process.busy for process in facts.processes)
        threads = sum(process.concurrency for process in facts.processes)
        quiet = sum(process.is_quiet for process in facts.processes)
        marked = f", {quiet} of the workers quiet" if quiet else ""
        what = f"{counted(len(facts.processes), 'worker')} with {counted(threads, 'thread')}, {busy} busy{marked}"
        yield ok("workers", what)
        return
    yield warn(
        "workers",
        "no worker is registered",
        cause="no job runs, and scheduled jobs do not move to their queues",
        action=worker_command(facts.server),
    )


def check_beats(facts: Facts) -> Iterator[Finding]:
    """Find workers with a wrong clock or without a recent heartbeat."""
    for process in facts.processes:
        age_seconds = facts.now - process.beat_at
        if not process.beat_at:
            continue
        if age_seconds < -DRIFT_SECONDS:
            yield _drift(process, f"{-age_seconds:.0f} s ahead of the server's")
        elif age_seconds > SILENT_SECONDS:
            yield _drift(process, f"{age_seconds:.0f} s behind the server's, or its last heartbeat is that old")


def _drift(process: Process, how: str) -> Finding:
    return warn(
        "beats",
        f"the clock of {process.identity} is {how}",
        cause="times in its jobs are wrong: delays, latencies and retries",
        action=f"on {shell_words(process.hostname)}: timedatectl set-ntp true; if it hangs: "
        f"offsider dump {shell_words(process.identity)}",
    )


def check_distance(facts: Facts) -> Iterator[Finding]:
    """Find workers with a slow round trip to the server."""
    mature = (process for process in facts.processes if facts.now - process.started_at >= YOUNG_SECONDS)
    slow = [process.identity for process in mature if process.round_trip_microseconds > SLOW_MICROSECONDS]
    if slow:
        yield warn(
            "distance",
            f"a round trip to the server takes over {SLOW_MICROSECONDS // 1000} ms for {listed(slow)}",
            cause="each job needs two round trips; or these processes are short of CPU",
            action="run workers close to the server, and lower their concurrency if their CPU is saturated",
        )


def check_interrupts(facts: Facts) -> Iterator[Finding]:
    """Find workers whose jobs in threads cannot be interrupted by time limits and stops."""
    for reason, identities in _by_text(facts, lambda process: process.uninterruptible).items():
        yield warn(
            "interrupts",
            f"jobs in threads cannot be interrupted in {listed(identities)}: {reason}",
            cause="a job at its hard limit kills its worker, and a job that outlasts a stop runs again from the start",
            action="run them on CPython 3.13 or older with the GIL, or check current_job().stopping in long jobs",
        )


def _by_text(facts: Facts, text: Callable[[Process], str]) -> dict[str, list[str]]:
    """Return the identities of the processes with the same text; processes with an empty text are omitted."""
    found: dict[str, list[str]] = {}
    for process in facts.processes:
        if shared := text(process):
            found.setdefault(shared, []).append(process.identity)
    return found


def check_gil(facts: Facts) -> Iterator[Finding]:
    """Find workers on a free-threaded build that run with the GIL nevertheless."""
    with_gil = _by_text(facts, lambda process: process.gil if process.gil.startswith("GIL on") else "")
    for state, identities in with_gil.items():
        yield warn(
            "gil",
            f"{listed(identities)} on a free-threaded Python: {state}",
            cause="the threads of a process share one core, as on an ordinary Python",
            action="update or remove that module, or set PYTHON_GIL=0 if it is safe without the GIL",
        )


def check_versions(facts: Facts) -> Iterator[Finding]:
    """Check that the Ruby processes on the same server can read and show our data."""
    rubys = {process.identity: process.version for process in facts.processes if process.identity not in facts.ours}
    return check_wire_version(facts.server.settings.wire_version, rubys)


PROCESS_CHECKS = (
    check_presence,
    check_beats,
    check_distance,
    check_interrupts,
    check_gil,
    check_versions,
)
