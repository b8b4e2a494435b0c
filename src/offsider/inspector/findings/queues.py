"""Queues whose jobs start late, or not at all: paused, served only by quiet workers, or by none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from offsider.config.addresses import FLEET, queue_path, with_fields
from offsider.config.web_tab import WebButton, WebLink
from offsider.core.controls import QUEUE
from offsider.core.segments import segment
from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.finding import Finding, error, warn
from offsider.inspector.findings.data_checks import worker_command
from offsider.inspector.findings.look import Look
from offsider.inspector.findings.wording import clock_time, span
from offsider.inspector.flow import QueueFlow
from offsider.inspector.process import Process
from offsider.inspector.stats import QueueSummary
from offsider.storage import events

#: A queue is unserved for a moment while its workers restart.
MIN_STOPPED_SECONDS = 30.0
LATE_ERROR_SECONDS = 3_600.0


def find_stopped(look: Look) -> Iterator[Finding]:
    """Find queues with jobs from which no worker claims: paused, or served by quiet workers only, or by none."""
    for queue in look.queues:
        waited = look.waited_seconds(queue.name)
        if not queue.size or (waited is not None and waited < MIN_STOPPED_SECONDS):
            continue
        waiting = f"{counted(queue.size, 'job')} waiting" + ("" if waited is None else f", the next for {span(waited)}")
        if queue.paused:
            yield _paused(look, queue, waiting)
        elif look.processes and not look.fleet.is_served(queue.name):  # no process at all is a finding of its own
            quiet = look.fleet.listed(queue.name)
            yield _quiet(look, queue, waiting, quiet) if quiet else _unserved(look, queue, waiting)


def _paused(look: Look, queue: QueueSummary, waiting: str) -> Finding:
    control = look.controls.get(f"{QUEUE}{queue.name}")
    who, reason, since = (control.by, control.reason, control.since) if control else ("", "", 0.0)
    author = f"by {who}" if who else "by an unknown client"
    why = f" ({reason})" if reason else ""
    return warn(
        "paused",
        f"{queue.name}: paused {author}{why}; {waiting}",
        cause="workers claim no jobs from a paused queue until you resume it",
        actions=(f"offsider queues resume {shell_words(queue.name)}",),
        kind="stopped",
        subject=queue.name,
        numbers={"jobs": queue.size},
        since=since or None,  # unknown if Ruby has paused it
        harm=look.waiting_harm(queue.name, queue.size),
        buttons=(
            WebButton("Resume", f"/controls/{segment(f'{QUEUE}{queue.name}')}/resume"),
            WebLink("Jobs", queue_path(queue.name)),
        ),
    )


def _quiet(look: Look, queue: QueueSummary, waiting: str, quiet: Sequence[Process]) -> Finding:
    names = [process.identity for process in quiet]
    since = {event.subject: event.at for event in look.events if event.kind == events.QUIET and event.subject in names}
    workers = f"worker {names[0]} is" if len(names) == 1 else f"workers {listed(names)} are"
    when = f" since {clock_time(max(since.values()))}" if since else ""
    return error(
        "quiet",
        f"{queue.name}: its only {workers} quiet{when}; {waiting}",
        cause="quiet workers claim no jobs, and a quiet worker cannot be resumed",
        actions=(f"restart it: offsider stop {shell_words(names[0])}, then {worker_command(look.server, queue.name)}",),
        kind="stopped",
        subject=queue.name,
        numbers={"jobs": queue.size, "workers": len(names)},
        since=max(since.values(), default=None),
        harm=look.waiting_harm(queue.name, queue.size),
        buttons=(WebLink("Worker", with_fields(FLEET, process=names[0])), WebLink("Jobs", queue_path(queue.name))),
    )


def _unserved(look: Look, queue: QueueSummary, waiting: str) -> Finding:
    return error(
        "unserved",
        f"{queue.name}: no worker serves it; {waiting}",
        cause="these jobs never run",
        actions=(worker_command(look.server, queue.name),),
        kind="stopped",
        subject=queue.name,
        numbers={"jobs": queue.size},
        since=look.waiting_since.get(queue.name),
        harm=look.waiting_harm(queue.name, queue.size),
        buttons=(WebLink("Jobs", queue_path(queue.name)),),
    )


def find_late(look: Look) -> Iterator[Finding]:
    """Find served queues whose next job waits beyond its target."""
    target = look.server.config.slo.target("low").queue_seconds
    for queue in look.queues:
        waited = look.waited_seconds(queue.name)
        # One that is late remains so until it waits for half of the target.
        limit = target / 2 if f"late:{queue.name}" in look.known else target
        if queue.paused or waited is None or not look.fleet.is_served(queue.name) or waited <= limit:
            continue
        serving = [each for each in look.fleet.listed(queue.name) if not each.is_quiet]
        threads, busy = sum(each.concurrency for each in serving), sum(each.busy for each in serving)
        flow = look.flow.queues.get(queue.name) if look.fleet.is_counted(queue.name) else None
        aim = "" if math.isinf(target) else f", target {span(target)}"
        yield (error if waited >= LATE_ERROR_SECONDS else warn)(
            "late",
            f"{queue.name}: {counted(queue.size, 'job')} waiting, the next for {span(waited)}{aim}{_flow_text(flow)}",
            cause=f"{busy:,} of {counted(threads, 'thread')} of its {counted(len(serving), 'worker')} busy",
            actions=("add workers or threads for it (-c, -q), or find out what fills it: offsider queues",),
            kind="late",
            subject=queue.name,
            numbers={
                "jobs": queue.size,
                "latency_seconds": waited,
                **({} if math.isinf(target) else {"target_seconds": target}),
                **_flow_numbers(flow),
                "busy": busy,
                "threads": threads,
            },
            since=look.now - waited + target,
            harm=look.waiting_harm(queue.name, queue.size),
            buttons=(WebLink("Jobs", queue_path(queue.name)), WebLink("Workers", FLEET)),
        )


def _flow_text(flow: QueueFlow | None) -> str:
    if flow is None:
        return ""
    eta = flow.eta_seconds
    end = "never empty at this rate" if eta is None else f"empty in {span(eta)}"
    return f"; in {flow.in_per_second:.1f}/s, out {flow.out_per_second:.1f}/s, {end}"


def _flow_numbers(flow: QueueFlow | None) -> dict[str, float]:
    if flow is None:
        return {}
    numbers = {"in_per_second": flow.in_per_second, "out_per_second": flow.out_per_second}
    return numbers if flow.eta_seconds is None else {**numbers, "eta_seconds": flow.eta_seconds}
