"""Why a job does not run: what is stored is read once, then judged by a pure function.

`read` collects the `Evidence` about one job. `judge` returns the reasons, the place of the job first, then what keeps
it from running, each with its numbers and the next steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from offsider.config.installation import Installation
from offsider.core.clock import END_OF_TIME
from offsider.core.controls import QUEUE as QUEUE_SUBJECT, class_of, selector
from offsider.core.wording import counted, duration, listed, shell_words
from offsider.inspector.controls import Controls
from offsider.inspector.failures import Attempts
from offsider.inspector.findings.data_checks import worker_command
from offsider.inspector.finished_runs import FinishedRun, FinishedRuns
from offsider.inspector.flow import Flow
from offsider.inspector.job_record import JobRecord
from offsider.inspector.quarantine import Quarantine, QuarantinedJob
from offsider.inspector.search import BUSY, HELD, QUARANTINE, QUEUE, find_tracked, search_everywhere
from offsider.inspector.stats import QueueSummary, ServerLook
from offsider.inspector.work import WorkSet, stacks_of
from offsider.storage import iteration, owners, processes, steps, stranded
from offsider.storage.steps import StepsSeen
from offsider.storage.stranded import stranded_since

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.job_id import JobInfo
    from offsider.inspector.controls import ControlInForce, GroupSeen
    from offsider.inspector.failures import Attempt
    from offsider.inspector.process import Process
    from offsider.inspector.search import Found
    from offsider.inspector.work import Work
    from offsider.storage.iteration import IterationState
    from offsider.storage.owners import Claimed
    from offsider.storage.slots import Holder
    from offsider.storage.stack_samples import StackSample

Tone: TypeAlias = Literal["good", "info", "warn", "bad"]

#: The scheduler moves due jobs each few seconds; a job that is due for longer is not moved.
OVERDUE_SECONDS = 30.0
_STEP_MS = 1_000.0
_MAX_HOLDERS = 5
#: Kind of the reason that names a cursor, and letters of the cursor in it.
ITERATES, MAX_CURSOR = "iterates", 100


class NextStep(NamedTuple):
    """What to do next: a sentence, and the command that does it, if there is one."""

    text: str
    command: str = ""

    def __str__(self) -> str:
        return f"{self.text}: {self.command}" if self.command else f"{self.text}."


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why a job does not run, or what it does instead.

    Attributes:
        kind: one word for programs, such as ``"paused"``.
        text: one or two sentences.
        tone: ``"bad"`` if it does not run until somebody acts.
        steps: what to do next.
    """

    kind: str
    text: str
    tone: Tone = "info"
    steps: Sequence[NextStep] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is stored about one job and around it, at one moment.

    Attributes:
        where: its place, as in `Found`, or ``"quarantine"``; empty if it is in none.
        record: the job; None if it is in no place.
        key: its key there.
        work, stacks: its run, and samples of it.
        claimed: its entry in the private list of a process, if it does not run yet.
        queue: the queue that it waits in.
        processes: the processes that serve that queue.
        works: their running jobs.
        capable: identities that can run its class; None if one of them publishes no classes, as Ruby's.
        controls: the controls that apply to its class or queue, or may do so.
        held_in: the group that holds it, such as a class or ``transfer[42]``; empty if none does.
        group, holders: this group or that of its class, and the runs with a slot of it.
        stranded: why no worker could run its class.
        attempts: its failed attempts, newest first.
        iteration: where it continues; None if it does not iterate.
        steps: its finished steps, and the signals that it has got.
        info, run: its state as a tracked job, and its last finished run, if it is in no place.
        per_second: jobs that its queue starts in a second; 0 if unknown.
        worker: the command that starts a worker of its server, for its queue if it waits in one.
    """

    jid: str
    now: float
    where: str = ""
    record: JobRecord | None = None
    key: str = ""
    work: Work | None = None
    stacks: Sequence[StackSample] = ()
    claimed: Claimed | None = None
    queue: QueueSummary | None = None
    processes: Sequence[Process] = ()
    works: Sequence[Work] = ()
    capable: frozenset[str] | None = None
    controls: Sequence[ControlInForce] = ()
    held_in: str = ""
    group: GroupSeen | None = None
    holders: Sequence[Holder] = ()
    stranded: str = ""
    attempts: Sequence[Attempt] = ()
    iteration: IterationState | None = None
    steps: StepsSeen = field(default_factory=StepsSeen)
    info: JobInfo | None = None
    run: FinishedRun | None = None
    per_second: float = 0.0
    worker: str = "offsider worker"
    max_retries: int = 25
    liveness_seconds: float = 45.0

    @property
    def is_found(self) -> bool:
        """Whether the job is stored, or its end is."""
        return any(each is not None for each in (self.record, self.info, self.run))


# ------------------------------------------------------------------------------------- reading


def read(jid: str, config: Config | Installation | None = None) -> Evidence:
    """Search for a job, and read all that is stored about it. Raises RedisFailure."""
    server = Installation.of(config)
    found = next((found for found in _everywhere(server, jid) if found.record.jid == jid), None)
    if found is not None:
        return read_around(server, found.where, found.key, found.record)
    quarantined = Quarantine(server).find_job(jid)
    if quarantined is not None:
        return read_around(server, QUARANTINE, quarantined.id, quarantined)
    for claimed in owners.claimed_with(server.redis, jid):
        record = JobRecord(claimed.raw, claimed.queue)
        if record.jid == jid:
            return _around(server, Evidence(jid, _now(server), record=record, claimed=claimed))
    runs = FinishedRuns(server).of_job(jid)
    return Evidence(jid, _now(server), info=find_tracked(jid, server), run=next(iter(runs), None))


def read_around(server: Installation, where: str, key: str, record: JobRecord) -> Evidence:
    """Read what is stored around a job whose place is known."""
    work = WorkSet(server).find_work(record.jid) if where == BUSY and record.jid else None
    return _around(server, Evidence(record.jid, _now(server), where, record, key, work))


def _everywhere(server: Installation, jid: str) -> Iterator[Found]:
    cursor, more = "", True
    while more:
        chunk = search_everywhere(jid, cursor, _STEP_MS, server)
        yield from chunk.entries
        cursor, more = chunk.cursor, bool(chunk.cursor)


def _now(server: Installation) -> float:
    return server.config.clock.now()


def _around(server: Installation, found: Evidence) -> Evidence:
    """Read what decides about a job in its place."""
    record, redis = found.record, server.redis
    if record is None:
        return found
    found = replace(
        found,
        stacks=stacks_of(record.jid, server) if found.work is not None else (),
        stranded=stranded.reasons(redis).get(record.name, "") if found.where == "schedule" else "",
        attempts=Attempts.of(record.jid, server) if record.jid else (),
        iteration=iteration.read(redis, record.jid) if record.jid else None,
        steps=steps.read(redis, record.jid) if record.jid else StepsSeen(),
        worker=worker_command(server, *[record.queue] * found.where.startswith(QUEUE)),
        max_retries=server.config.worker.max_retries,
        liveness_seconds=server.config.worker.liveness_seconds,
    )
    if found.claimed is not None or found.where in (BUSY, "dead", QUARANTINE):
        return found
    controls = Controls(server)
    held_in = found.where.removeprefix(HELD).removeprefix(redis.keys.held("")) if found.where.startswith(HELD) else ""
    name = held_in or record.name
    found = replace(
        found,
        controls=[one for one in controls.of_server() if _applies(one, record)],
        held_in=held_in,
        group=next((one for one in controls.groups(class_of(name)) if one.name == class_of(name)), None),
        holders=controls.holders(name, _MAX_HOLDERS),
    )
    return _around_queue(server, found, record) if found.where.startswith(QUEUE) else found


def _around_queue(server: Installation, found: Evidence, record: JobRecord) -> Evidence:
    look = ServerLook.read(server)
    serving = look.listed(record.queue)
    identities = [one.identity for one in serving]
    published = processes.published_jobs(server.redis, identities)
    capable = frozenset(one for one, names in published.items() if record.name in names)
    flow = None if any(one.is_ruby for one in serving) else Flow.read(server).queues.get(record.queue)
    return replace(
        found,
        queue=next((one for one in look.queues if one.name == record.queue), None),
        per_second=0.0 if flow is None else flow.out_per_second,
        processes=serving,
        works=[work for work in WorkSet(server) if work.process in identities],
        capable=capable if len(published) == len(serving) else None,
    )


def _applies(control: ControlInForce, record: JobRecord) -> bool:
    """Whether a control applies to a job; a control of a key or a selector may do so."""
    subject = control.subject
    if subject.startswith(QUEUE_SUBJECT):
        return subject == f"{QUEUE_SUBJECT}{record.queue}"
    return class_of(subject) == record.name or selector(subject) is not None


# ------------------------------------------------------------------------------------- judging


def judge(found: Evidence) -> list[Reason]:
    """Return the reasons, the place of the job first."""
    return [*_reasons(found), *_progress(found)]


def _reasons(found: Evidence) -> Iterator[Reason]:
    record, where = found.record, found.where
    if record is None and found.info is not None:
        yield _ended(found.info)
    elif record is None:
        yield _unknown(found) if found.run is None else _finished(found.run)
    elif found.claimed is not None:
        yield _claimed(found, found.claimed)
    elif where == BUSY:
        yield from _running(found)
    elif where.startswith(QUEUE):
        yield _queued(found, record)
        yield from _expired(found, record)
        yield from _blocked(found, record)
    elif where.startswith(HELD):
        yield _held(found, record)
        yield from _controls(found, record, ("hold", "limit"))
    elif where == "dead":
        yield _dead(found, record)
    elif isinstance(record, QuarantinedJob):
        yield _quarantined(found, record)
    else:
        yield _retry(found, record) if where == "retry" else _scheduled(found, record)
        yield from _overdue(found, record)
        yield from _controls(found, record, ("defer", "drop"))


def _progress(found: Evidence) -> Iterator[Reason]:
    if found.iteration is not None:
        yield _iterates(found.iteration)
    if found.steps.steps or found.steps.waits_for:
        yield _has_steps(found.steps, found.where)


def _iterates(state: IterationState) -> Reason:
    where = f"at the cursor {state.cursor[:MAX_CURSOR]}" if state.cursor else "at its first element"
    where = "after its last element" if state.has_ended else where
    asked = ", and was canceled" * state.is_cancelled
    runs, seconds = counted(state.executions, "run"), state.runtime_seconds
    return Reason(ITERATES, f"It iterates: {runs}, {seconds:,.0f} s, {where} when that was last stored{asked}.")


def _has_steps(seen: StepsSeen, where: str) -> Reason:
    done = f"It has finished {counted(len(seen.steps), 'step')}: {listed([*seen.steps])}." if seen.steps else ""
    name = seen.waits_for if where == "schedule" else ""
    until = datetime.fromtimestamp(min(seen.until.get(name, 0.0), END_OF_TIME - 1), UTC)
    waits = f"It waits for the signal {name!r} until {until:%Y-%m-%d %H:%M:%S} UTC." if name else ""
    return Reason("waits" if name else "steps", " ".join(part for part in (done, waits) if part))


def _unknown(found: Evidence) -> Reason:
    return Reason(
        "unknown",
        f"There is no job {found.jid} on this server: it has succeeded, was deleted, or was never pushed here.",
        "warn",
        (
            NextStep("Search for a class or an argument instead", "offsider jobs --text TEXT"),
            NextStep("Track the job, so that its end is stored: the extension Results with track=True"),
        ),
    )


def _ended(info: JobInfo) -> Reason:
    took = "" if info.duration_ms is None else f", in {duration(info.duration_ms / 1000)}"
    error = f" with {info.error_class}" if info.error_class and info.state != "succeeded" else ""
    where = f" in {info.process}" if info.process else ""
    tone: Tone = "good" if info.state == "succeeded" else "info"
    return Reason(
        info.state, f"It has {_ENDS.get(info.state, info.state)} {_at(info.changed_at)}{took}{where}{error}.", tone
    )


def _finished(run: FinishedRun) -> Reason:
    of = f" of {run.class_name}" if run.class_name else ""
    release = f", release {run.release}" if run.release else ""
    return Reason(
        run.outcome or "ended",
        f"It is in no queue or set. Its last run{of}{release} started {_at(run.started_at)}, took "
        f"{duration(run.duration_seconds)}, and {run.outcome or 'ended'}.",
        "good" if run.outcome == "succeeded" else "info",
    )


_ENDS = {"running": "begun to run", "queued": "been pushed to its queue", "scheduled": "been scheduled"}


def _claimed(found: Evidence, claimed: Claimed) -> Reason:
    if claimed.is_alive:
        return Reason(
            "claimed",
            f"{claimed.identity} has claimed it from the queue {claimed.queue} and starts it when a thread is free "
            "or its chunk begins; a run of less than a second is not listed as running.",
        )
    return Reason(
        "reclaim",
        f"It is in the private list of {claimed.identity}, which has died. Another worker requeues it within about "
        f"{duration(found.liveness_seconds / 2)}.",
        "warn",
        (NextStep("If no worker runs, start one: any worker requeues it", found.worker),),
    )


def _running(found: Evidence) -> Iterator[Reason]:
    work = found.work
    if work is None:
        yield Reason("ended", "It was running a moment ago, and has ended since.", steps=(NextStep("Ask again"),))
        return
    yield Reason(
        "running",
        f"It runs in {work.process}, thread {work.tid}, for {duration(work.elapsed_seconds)}.",
        "good",
        (NextStep("Cancel this run", f"offsider cancel {shell_words(found.jid)}"),),
    )
    if found.stacks:
        last = found.stacks[-1]
        yield Reason(
            "slow",
            f"This run lasts unusually long for its class. {duration(last.at - last.run_at)} after its start it was "
            f"at {last.place}.",
            "warn",
        )


def _queued(found: Evidence, record: JobRecord) -> Reason:
    queue, ahead = found.queue, record.position or 0
    size = f" of {queue.size:,}" if queue is not None else ""
    eta = f", about {duration(ahead / found.per_second)}" if ahead and found.per_second else ""
    waits = f" It has waited for {duration(record.latency_seconds)}." if record.latency_seconds else ""
    return Reason(
        "queued",
        f"It waits in the queue {record.queue}, number {ahead + 1:,}{size}: {counted(ahead, 'job')} "
        f"{'is' if ahead == 1 else 'are'} ahead of it{eta}.{waits}",
    )


def _blocked(found: Evidence, record: JobRecord) -> Iterator[Reason]:
    """Yield what keeps a waiting job from being claimed, then what happens when it is claimed."""
    queue = record.queue
    pause = next((one for one in found.controls if _is_pause(one, record)), None)
    origin = "" if pause is None else _origin(found, pause)
    if pause is not None or (found.queue is not None and found.queue.paused):
        yield Reason(
            "paused",
            f"The queue {queue} is paused{origin or ' (by a client that recorded no name)'}.",
            "bad",
            (NextStep("Resume the queue", f"offsider queues resume {shell_words(queue)}"),),
        )
    serving = [one for one in found.processes if not one.is_quiet]
    quiet = [one.identity for one in found.processes if one.is_quiet]
    if not found.processes:
        yield Reason(
            "unserved",
            f"No process serves the queue {queue}.",
            "bad",
            (NextStep("Start a worker for it", found.worker),),
        )
    elif not serving:
        are = "is" if len(quiet) == 1 else "are"
        yield Reason(
            "quiet",
            f"The only {'process' if len(quiet) == 1 else 'processes'} of the queue {queue} {are} quiet and {are} "
            f"claiming no jobs: {listed(quiet)}.",
            "bad",
            (NextStep("Start another worker for it", found.worker),),
        )
    elif found.capable is not None and found.capable.isdisjoint(one.identity for one in serving):
        yield Reason(
            "incapable",
            f"No process of the queue {queue} declares {record.name}: such a job is stranded when it is claimed.",
            "bad",
            (NextStep("Deploy a worker that declares the class, or move the job"),),
        )
    elif all(0 < one.concurrency <= one.busy for one in serving):
        yield _busy(found, serving)
    yield from _controls(found, record, ("hold", "limit", "defer", "drop"))


def _busy(found: Evidence, serving: Sequence[Process]) -> Reason:
    names = Counter(work.record.display_class for work in found.works)
    longest = max((work.elapsed_seconds for work in found.works), default=0.0)
    what = listed(f"{count:,} {name}" for name, count in names.most_common())
    threads = sum(one.concurrency for one in serving)
    return Reason(
        "busy",
        f"All {counted(threads, 'thread')} of {counted(len(serving), 'process')} are busy"
        f"{f' with {what}; the longest for {duration(longest)}' if what else ''}.",
        "warn",
        (NextStep("See the running jobs", "offsider show fleet"), NextStep("Start more workers")),
    )


def _controls(found: Evidence, record: JobRecord, actions: Sequence[str]) -> Iterator[Reason]:
    for control in found.controls:
        of_class = control.subject == record.name
        if (
            control.action in actions
            and not _is_pause(control, record)
            and not (of_class and control.action == "limit")
        ):
            may = "" if of_class or control.subject.startswith(QUEUE_SUBJECT) else "; this may include the job"
            yield Reason(
                _KIND_OF[control.action],
                f"Jobs of {control.subject} are {control.described}{_origin(found, control)}{may}.",
                "warn",
                (NextStep("End the control", f"offsider controls resume {shell_words(control.subject)}"),),
            )
    group = found.group
    own = [one.limit for one in found.controls if one.subject == record.name and one.action == "limit"]
    limit = next(iter(own), 0 if group is None else group.limit or 0)
    if "limit" in actions and group is not None and group.in_use >= limit > 0:
        yield Reason(
            "limit",
            f"{group.name} is at its limit of {counted(limit, 'concurrent run')}: {group.in_use:,} in use by "
            f"{listed(f'{one.jid} in {one.process} for {duration(found.now - one.since)}' for one in found.holders)}.",
            "warn",
            (NextStep("See who holds the slots", f"offsider show controls {shell_words(group.name)}"),),
        )


def _is_pause(control: ControlInForce, record: JobRecord) -> bool:
    return control.subject == f"{QUEUE_SUBJECT}{record.queue}" and control.action == "hold"


_KIND_OF = {"hold": "hold", "limit": "limited", "defer": "deferred", "drop": "dropped"}


def _held(found: Evidence, record: JobRecord) -> Reason:
    number = (record.position or 0) + 1
    return Reason(
        "held",
        f"It is held in the group {found.held_in}, number {number:,}: it starts when the group has a free slot.",
        "warn",
        ()
        if found.group is None
        else (NextStep("See the group", f"offsider show controls {shell_words(found.held_in)}"),),
    )


def _scheduled(found: Evidence, record: JobRecord) -> Reason:
    since = None if record.payload is None else stranded_since(record.payload)
    if since is not None:
        why = f": {found.stranded}" if found.stranded else ""
        return Reason(
            "stranded",
            f"No live process can run {record.name} since {_at(since)}{why}. "
            f"It is tried again at {_in(found, record.score)}.",
            "bad",
            (NextStep("Deploy a worker that can run it: it is then due at once", "offsider doctor"),),
        )
    return Reason("scheduled", f"It is scheduled for {_in(found, record.score)}.")


def _overdue(found: Evidence, record: JobRecord) -> Iterator[Reason]:
    late = found.now - record.score
    if late > OVERDUE_SECONDS:
        yield Reason(
            "overdue",
            f"It is overdue for {duration(late)}: a worker process moves due jobs to their queues, and none does.",
            "bad",
            (NextStep("Start a worker", found.worker),),
        )


def _expired(found: Evidence, record: JobRecord) -> Iterator[Reason]:
    at = record.expires_at
    if at is not None and at <= found.now:
        yield Reason("expired", f"It has expired {_at(at)}: a worker deletes it instead of running it.", "warn")


def _retry(found: Evidence, record: JobRecord) -> Reason:
    return Reason(
        "retry",
        f"{_failed(found, record)} It will be retried at {_in(found, record.score)}.",
        "warn",
        (NextStep("Retry it now", _action(found, "retry")), *_error_step(record)),
    )


def _dead(found: Evidence, record: JobRecord) -> Reason:
    retry = "It killed workers. After the fix, retry it" if record.error_class == "offsider.PoisonPill" else "Retry it"
    return Reason(
        "dead",
        f"It is dead since {_at(record.score)} and will not run again by itself. {_failed(found, record)}",
        "bad",
        (NextStep(retry, _action(found, "retry")), *_error_step(record)),
    )


def _action(found: Evidence, name: str) -> str:
    return f"offsider do job {shell_words(f'{found.jid}/{name}')}"


def _error_step(record: JobRecord) -> Iterator[NextStep]:
    if record.error_class:
        yield NextStep("Find other jobs with this error", f"offsider jobs --error {shell_words(record.error_class)}")


def _failed(found: Evidence, record: JobRecord) -> str:
    if record.retry_count is None:
        return f"It ended with {record.error_class}." if record.error_class else "It has no recorded failure."
    retry: object = record["retry"]
    most = retry if type(retry) is int else 0 if retry is False else found.max_retries
    return f"Attempt {record.retry_count + 1} of {max(most, record.retry_count) + 1} failed with {record.error_class}."


def _quarantined(found: Evidence, record: QuarantinedJob) -> Reason:
    return Reason(
        "quarantine",
        f"It is in quarantine since {_at(record.at)} ({record.how}), and is deleted at {_in(found, record.until)}.",
        "bad",
        (NextStep("Restore it", _action(found, "restore")),),
    )


def _origin(found: Evidence, control: ControlInForce) -> str:
    """Return by whom, since when and why; empty without a record."""
    parts = [
        f"by {control.by}" if control.by else "",
        f"since {_at(control.since)}, {duration(found.now - control.since)}" if control.since else "",
        f"until {_at(control.until)}" if control.until else "",
    ]
    text = " ".join(filter(None, parts))
    return f" {text}" * bool(text) + (f": {control.reason}" if control.reason else "")


def _at(at: float | None) -> str:
    """Return a time as ``03:47:12 UTC``, with the date if it is not today's."""
    if at is None or not 0 <= at < END_OF_TIME:
        return "an unknown time"
    moment = datetime.fromtimestamp(at, UTC)
    is_today = moment.date() == datetime.now(UTC).date()
    return f"{moment:%H:%M:%S} UTC" if is_today else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _in(found: Evidence, at: float) -> str:
    """Return a time to come as ``03:47:12 UTC, in 5 min 0 s``."""
    if at <= found.now:
        return f"{_at(at)}, now"
    return f"{_at(at)}, in {duration(at - found.now)}" if at < END_OF_TIME else _at(at)  # a score may be infinite
