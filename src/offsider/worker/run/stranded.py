"""Decides about jobs that this worker cannot run: unknown class, or arguments for another signature.

Such a job has not failed, uses up no retry, and is never dropped:

1. While another live process of its queue can run the job, or might, the job is handed over: pushed to the tail of its
   queue, at most once per second and process, otherwise scheduled for up to 6 s. Its bytes do not change.
2. A process that does not publish its job classes, as Ruby's do not, might run it. So might a Python worker with
   another signature, but either may be busy. After 5 hand-overs, each delay in the schedule equals the time waited
   before. The job still returns to the tail first: an idle worker blocks longest on the queue, so a due job reaches
   it before any Ruby process. After 60 s, such processes no longer count.
3. A job that no process can run is stranded: it is marked and waits in the schedule, first for one second, later for up
   to five minutes. The log, the event ``job_stranded``, the pages and the metrics report it.
4. After ``worker.stranded_days`` it moves to the dead set.
5. A worker that can run it makes it due at once: after its first heartbeats, and after a heartbeat that publishes a
   different list of jobs, `StrandedRescue` scans the part of the schedule with stranded jobs. Later no scan is needed:
   other workers hand such jobs over. Among workers with the same jobs and queues, one at a time scans.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.compression import decode_plain
from offsider.core.errors import InvalidArguments, MalformedPayload, NoCapableWorker, RedisFailure
from offsider.core.outcome import Failed, NotStarted
from offsider.core.payload import decode, encode, forget_stranded, is_stranded, new_jid, stamp
from offsider.core.wording import counted
from offsider.inspector.process import ProcessSet
from offsider.jobs import registry
from offsider.logs.structured import about_running
from offsider.runtime.events import JobStranded
from offsider.runtime.service import Loop
from offsider.storage import processes, stranded, strikes
from offsider.storage.leases import hold_lease
from offsider.storage.stranded import stranded_since

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.jobs.registry import Declared
    from offsider.runtime.context import JobContext
    from offsider.storage.redis import Redis


logger = logging.getLogger("offsider")

#: Job class -> digest of its signature, for each job that a process can run.
Known: TypeAlias = Mapping[str, str]

#: Minimum time between two jobs that a process pushes to the tail of their queues; others go through the schedule.
TAIL_SECONDS = 1.0
#: Limits for handing a job over to processes that might run it: hand-overs, and time until the job is stranded.
MAX_HAND_OVERS, MAX_SECONDS = 5, 60.0
#: Hand-overs of one job between two warnings.
WARN_EVERY = 500
#: Minimum spacing of the due times that a process gives out: many jobs due at once would keep it busy with these alone.
PACE_SECONDS = 0.01
#: The next delay equals the time waited so far, within these limits.
FIRST_SECONDS, HANDED_ON_SECONDS, STRANDED_SECONDS = 1.0, 5.0, stranded.MAX_DELAY_SECONDS / 1.2
CHECK_SECONDS = 1.0
#: The names of both outcomes.
HANDED_OVER, STRANDED = "handed over", "stranded"
LOG_SECONDS = 60.0
_SPREAD = 0.2
_MAX_LOGGED = 500
_SECONDS_OF_DAY = 86_400
_EVERY_QUEUE = "*"


class StrandedCheck:
    """Decides about the jobs of one worker.

    Args:
        redis: the server where other workers publish their job classes.
    """

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._others: Sequence[tuple[Sequence[str], Known | None]] = ()
        self._tail_at = self._paced_until = float("-inf")
        self._logged_at: dict[str, float] = {}

    def judge(self, job: JobContext, declared: Declared | None) -> NotStarted | Failed | None:
        """Decide about a job before it runs.

        Args:
            declared: the registered job of its class, if any.

        Returns:
            None if this worker can run it; Failed with NoCapableWorker after ``worker.stranded_days``.
        """
        reason = why_not(declared, job.payload)
        if not reason or not self._config.worker.stranded_days:
            return None
        why = f"no live worker of queue {job.queue} can run it"
        try:
            others = self._others_of(job.queue)
            can = _can_run(job.payload, others)
            if can or _may_run(job.payload, declared, others):
                count, seconds = stranded.count_hand_over(self._redis, strikes.name_of(job.raw), job.retry_count or 0)
                if can or seconds <= MAX_SECONDS:
                    who = f"{reason}; another worker {'can' if can else 'might'} run it"
                    longest = HANDED_ON_SECONDS if can or count <= MAX_HAND_OVERS else MAX_SECONDS
                    return self._hand_on(job, who, count, seconds, longest)
                why = "no other worker ran it in time"
        except RedisFailure as error:
            return self._later(job, f"{reason}; the other workers are unknown: {error}", FIRST_SECONDS)
        return self._strand(job, f"{reason}; {why}")

    def report(self, job: JobContext, outcome: NotStarted) -> None:
        """Report a stranded job: to listeners, in Redis, and at most once a minute for each class in the log."""
        if outcome.name != STRANDED:
            return
        since = stranded_since(decode(outcome.payload or job.raw)) or self._config.clock.now()
        news = JobStranded(job, outcome.reason, outcome.delay_seconds, since)
        self._config.events.emit("job_stranded", news)
        with suppress(RedisFailure):  # the next attempt notes it
            stranded.note(self._redis, job.payload["class"], outcome.reason)
        now = time.monotonic()
        with self._lock:
            if now - self._logged_at.get(job.name, float("-inf")) < LOG_SECONDS:
                return
            if len(self._logged_at) >= _MAX_LOGGED:
                self._logged_at.clear()
            self._logged_at[job.name] = now
        logger.error(
            "stranded %s JID-%s: %s; next attempt in %.0f s, or as soon as a capable worker starts",
            job.name,
            job.jid,
            outcome.reason,
            outcome.delay_seconds,
            extra={"fields": about_running(job)},
        )

    def _others_of(self, queue: str) -> list[Known | None]:
        """The published jobs of each other process that serves this queue; None for one that does not publish them."""
        with self._lock:
            if time.monotonic() - self._looked_at >= CHECK_SECONDS:
                found = list(iter(ProcessSet(self._config)))
                known = processes.published_jobs(self._redis, [process.identity for process in found])
                self._others = [(process.serving, known.get(process.identity)) for process in found]
                self._looked_at = time.monotonic()
            return [known for queues, known in self._others if queue in queues or _EVERY_QUEUE in queues]

    def _hand_on(self, job: JobContext, reason: str, count: int, seconds: float, longest: float) -> NotStarted:
        if count % WARN_EVERY == 0:
            message = (
                "%s JID-%s was handed over %d times and has not run yet: %s; check which workers of its queue load "
                "this class"
            )
            logger.warning(message, job.name, job.jid, count, reason, extra={"fields": about_running(job)})
        with self._lock:
            now = time.monotonic()
            if now - self._tail_at >= TAIL_SECONDS:
                self._tail_at = now
                return NotStarted("queue", 0.0, reason, HANDED_OVER, is_logged=count == 1)
        return self._later(job, reason, self._backoff(seconds, longest), is_first=count == 1)

    def _later(self, job: JobContext, reason: str, delay_seconds: float, *, is_first: bool = True) -> NotStarted:
        payload = decode(job.raw)
        raw = job.raw if payload.get("queue") == job.queue else encode({**payload, "queue": job.queue})
        return NotStarted("schedule", delay_seconds, reason, HANDED_OVER, raw, is_first)

    def _strand(self, job: JobContext, reason: str) -> NotStarted | Failed:
        payload, now = decode(job.raw), self._config.clock.now()
        known_since = stranded_since(payload)
        since = now if known_since is None else known_since
        days = self._config.worker.stranded_days
        if now - since > days * _SECONDS_OF_DAY:
            return Failed(NoCapableWorker(f"{reason}, for {days} days"))
        forget_stranded(payload)
        payload["queue"] = job.queue
        payload["stranded_at"] = stamp(since, self._config.redis.wire_version)
        delay_seconds = self._backoff(now - since, STRANDED_SECONDS)
        return NotStarted("schedule", delay_seconds, reason, STRANDED, encode(payload), known_since is None)

    def _backoff(self, waited_seconds: float, longest_seconds: float) -> float:
        spread = self._config.random.uniform(1 - _SPREAD, 1 + _SPREAD)
        with self._lock:
            now = time.monotonic()
            paced_seconds = min(max(self._paced_until - now, 0.0) + PACE_SECONDS, longest_seconds)
            self._paced_until = now + paced_seconds
        return min(max(waited_seconds, paced_seconds, FIRST_SECONDS), longest_seconds) * spread


def why_not(declared: Declared | None, payload: JobPayload) -> str:
    """The reason why a job cannot run here; empty if it can, or if its payload has no signature."""
    version = payload.get("app_version")
    pushed = f", pushed by version {version}," if isinstance(version, str) else ""
    if declared is None:
        return f"{payload['class']}{pushed} is not declared in this worker"
    if not isinstance(payload.get("signature"), str) or payload.get("signature") in declared.signatures:
        return ""
    try:
        declared.signature.check_fits(payload["args"], payload.get("kwargs", {}))
    except InvalidArguments as error:
        return f"{error}{pushed.rstrip(',')}"
    return ""


def _can_run(payload: JobPayload, others: Sequence[Known | None]) -> bool:
    """Whether another process has the signature that the job was pushed for."""
    signature: object = payload.get("signature")
    theirs = _signatures(payload, others)
    return signature in theirs if isinstance(signature, str) else bool(theirs)


def _may_run(payload: JobPayload, declared: Declared | None, others: Sequence[Known | None]) -> bool:
    """Whether another process does not publish its jobs, or has a signature that might fit the arguments."""
    ours = None if declared is None else declared.signature.digest
    return None in others or any(theirs != ours for theirs in _signatures(payload, others))


def _signatures(payload: JobPayload, others: Sequence[Known | None]) -> list[str]:
    return [known[payload["class"]] for known in others if known is not None and payload["class"] in known]


BATCH = 100
#: Scans after a start. The later ones find jobs that other workers stranded before they saw this one.
SCANS_AFTER_START = 3
IDLE_SECONDS = 3600.0
#: Minimum time between two scans of workers with the same jobs and queues.
LEASE_SECONDS = 4.0
#: Maximum schedule entries read per scan. Stranded jobs behind them become due by themselves within minutes.
MAX_ENTRIES = 200_000


class StrandedRescue(Loop):
    """The rescue service of one worker.

    Args:
        quiet: returns whether the worker is quiet.
    """

    def __init__(self, config: Config, redis: Redis, *, quiet: Callable[[], bool]) -> None:
        self._config = config
        self._redis = redis
        self._quiet = quiet
        self._holder = new_jid()
        self._published: Mapping[str, str] = {}
        self._scans_left = 0
        super().__init__("offsider-stranded-rescue", self.tick, config.handle_error)

    def beaten(self) -> None:
        """Schedule scans if the heartbeat just sent has published new jobs; called after each heartbeat."""
        published = registry.signatures()
        if published != self._published:
            self._published, self._scans_left = published, SCANS_AFTER_START
        if self._scans_left:
            self.wake()

    def tick(self) -> float:
        """Scan once, if a scan is due and any job is stranded."""
        if self._scans_left and not self._is_over():
            self._scans_left -= 1
            if stranded.is_any(self._redis) and self._has_lease():
                self._rescue()
        return IDLE_SECONDS

    def _has_lease(self) -> bool:
        group = hashlib.sha256(json.dumps([self._queues(), self._published], sort_keys=True).encode()).hexdigest()
        return hold_lease(self._redis, f"stranded-rescue:{group[:16]}", self._holder, LEASE_SECONDS)

    def _rescue(self) -> None:
        runnable = (raw for raw in self._members() if is_stranded(raw) and self._can_run(raw))
        rescued = 0
        while batch := list(islice(runnable, BATCH)):
            rescued += stranded.hasten(self._redis, batch)
        if rescued:
            logger.info("rescheduled %s that this worker can run: due now", counted(rescued, "stranded job"))

    def _members(self) -> Iterator[bytes]:
        for raw in islice(stranded.each(self._redis), MAX_ENTRIES):
            if self._is_over():
                return
            yield raw

    def _is_over(self) -> bool:
        return self.stopping or self._quiet()

    def _can_run(self, raw: bytes) -> bool:
        try:
            payload = decode_plain(raw)
        except MalformedPayload:
            return False
        queues = self._queues()
        is_served = "*" in queues or payload.get("queue", "") in queues
        return is_served and not why_not(registry.peek(payload["class"]), payload)

    def _queues(self) -> list[str]:
        capsules = self._config.capsules.values()
        return sorted({queue for capsule in capsules for queue in ("*" if capsule.all_queues else capsule.queues)})
