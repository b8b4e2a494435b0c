"""Whether this worker can run a job, and what becomes of one that it cannot run.

While a release is rolled out, old and new workers take jobs from the same queues, and each pushes what the other may
not know. A job that this worker cannot run (its class is not declared here, or its arguments were made for other
parameters and do not fit ours) has not failed:

1. When a process that does not tell what it can run serves the queue, as Ruby's do, nothing is judged: the job runs
   here and fails, as if nobody had asked.
2. When another live worker of the queue can run it, it goes to the schedule for a moment, and comes back to the queue.
3. When nobody can, it is parked: it stays in the schedule for longer each time, and that is told: an error in the log,
   the event ``job_parked``, and a note in Redis for monitoring, the doctor and the pages.
4. After ``worker.park_days`` it is buried.

What the others can run is read at most once a second, and only when there is such a job.

Idle processes get jobs in the order in which they began to wait. So one that is sent on again and again goes round:
it meets a worker that can run it after as many tries as there are processes, and the pause between two tries says how
long that takes. It stays short as long as that worker lives, and grows with the number of such jobs alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.errors import InvalidArguments, NoCapableWorker, RedisFailure
from offsider.core.payload import decode, encode, stamp
from offsider.storage import parked, registered
from offsider.storage.parked import LONGEST_SECONDS, Seen, Wanted, parked_since, wanted_by
from offsider.wiring.events import JobParked
from offsider.worker.outcome import Failed, Parked

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.jobs.registry import Declared
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext

logger = logging.getLogger("offsider")

#: Until a job is tried again that another worker can run, when there are no others.
ROUND_SECONDS = 0.5
#: Many such jobs are tried about so often in a second by all processes together, times the root of their number.
ROUND_RATE = 10.0
_LONGEST_ROUND_SECONDS = 30.0
#: Until a job is tried again that another worker may be able to run.
SHORT_SECONDS = (1.0, 1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 10.0, 10.0, 20.0, 30.0)
#: Until a job is tried again that nobody can run; a worker that can, and starts meanwhile, does not wait for it.
LONG_SECONDS = (5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 180.0, LONGEST_SECONDS / 1.2)
_SPREAD = 0.2
#: So often a job is sent on to a worker whose parameters are neither ours nor those it was made for.
DOUBTFUL_TRIES = 8
#: So often it goes without saying.
PATIENT_TRIES = 500
LOOK_SECONDS = 1.0
NOTE_SECONDS = 1.0
LOG_SECONDS = 60.0
_MOST_KINDS = 500
_MOST_REMEMBERED = 2_000
_SECONDS_OF_DAY = 86_400
_EVERY_QUEUE = "*"


@dataclass(frozen=True, slots=True)
class Other:
    """A live worker process.

    Attributes:
        queues: that it serves.
        known: name -> digest of each job that it can run; None when it does not tell.
        quiet: it takes no further jobs.
    """

    queues: Sequence[str]
    known: Mapping[str, str] | None
    quiet: bool

    def serves(self, queue: str) -> bool:
        return queue in self.queues or _EVERY_QUEUE in self.queues


@dataclass(slots=True)
class _Told:
    """What was said of the parked jobs of one kind."""

    unnoted: int = 0
    noted_at: float = float("-inf")
    logged_at: float = float("-inf")
    last: Seen | None = None


class Abilities:
    """Decides for the jobs of one worker.

    Args:
        redis: where the other workers tell what they can run.
    """

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._looking = threading.Lock()
        self._looked_at = float("-inf")
        self._others: Sequence[Other] = ()
        #: When jobs were sent on in the last second, in monotonic seconds.
        self._sent_at: deque[float] = deque(maxlen=_MOST_REMEMBERED)
        self._telling = threading.Lock()
        self._told: dict[Wanted, _Told] = {}

    def judge(self, job: JobContext, declared: Declared | None) -> Parked | Failed | None:
        """What becomes of a job that may be beyond this worker; None: it is run.

        Args:
            declared: what is registered here under its name.

        Returns:
            Failed with NoCapableWorker when for too long nobody could run it.
        """
        reason = why_not(declared, job.payload)
        if not reason or not self._config.worker.park_days:
            return None
        try:
            serving = [other for other in self._look() if other.serves(job.queue)]
        except RedisFailure as error:
            return self._sent_on(job, f"{reason}; who else could cannot be asked: {error}")
        if any(other.known is None for other in serving):
            return None
        active = [other for other in serving if not other.quiet]
        if _somebody_can_for_sure(job.payload, active):
            return self._sent_on(job, f"{reason}; another worker can run it", round_of=len(serving))
        if _somebody_might(job.payload, declared, active):
            return self._sent_on(job, f"{reason}; another worker may be able to run it")
        return self._parked(job, f"{reason}; no live worker of queue {job.queue} can run it")

    def tell(self, job: JobContext, outcome: Parked) -> None:
        """Say that a job was parked, when nobody can run it: to listeners, and now and then to the log and in Redis."""
        if not outcome.nobody:
            return
        news = JobParked(job, outcome.reason, outcome.delay_seconds, outcome.tries)
        self._config.events.emit("job_parked", news)
        wanted, now = wanted_by(job.payload), time.monotonic()
        with self._telling:
            if wanted not in self._told and len(self._told) >= _MOST_KINDS:
                self._told.clear()
            told = self._told.setdefault(wanted, _Told())
            told.unnoted += 1
            told.last = Seen(self._config.clock.now(), job.queue, outcome.reason)
            is_to_log = now - told.logged_at >= LOG_SECONDS
            is_to_note = now - told.noted_at >= NOTE_SECONDS
            if is_to_log:
                told.logged_at = now
        if is_to_log:
            logger.error(
                "parked %s JID-%s: %s; it is tried again in %.0f s, and at once when such a worker starts",
                job.name,
                job.jid,
                outcome.reason,
                outcome.delay_seconds,
            )
        if is_to_note:
            self.flush()

    def flush(self) -> None:
        """Note in Redis what was parked since the last time. What the server does not take waits for the next."""
        now = time.monotonic()
        with self._telling:
            waiting = [(wanted, told.last, told.unnoted) for wanted, told in self._told.items() if told.unnoted]
            for wanted, _, _ in waiting:
                self._told[wanted].unnoted = 0
                self._told[wanted].noted_at = now
        for wanted, last, count in waiting:
            try:
                parked.note(self._redis, wanted, last or Seen(0.0, "", ""), count)
            except RedisFailure:
                with self._telling:
                    self._told.setdefault(wanted, _Told(last=last)).unnoted += count

    def _look(self) -> Sequence[Other]:
        # Imported for this rare case: the inspector is a lot of code that workers do without.
        from offsider.inspector.process import ProcessSet

        with self._looking:
            if time.monotonic() - self._looked_at >= LOOK_SECONDS:
                processes = list(ProcessSet(self._config))
                known = registered.known_to(self._redis, [process.identity for process in processes])
                self._others = [
                    Other(process.queues, known.get(process.identity), process.is_quiet) for process in processes
                ]
                self._looked_at = time.monotonic()
            return self._others

    def _sent_on(self, job: JobContext, reason: str, *, round_of: int = 0) -> Parked:
        payload = decode(job.raw)
        count = 0 if payload.pop("parked_at", None) is not None else _count(payload)
        if count and count % PATIENT_TRIES == 0:
            logger.warning("%s JID-%s was sent on %d times, and still waits: %s", job.name, job.jid, count, reason)
        delays = (self._round_seconds(round_of),) if round_of else SHORT_SECONDS
        return self._put_off(job, payload, count, delays, reason, nobody=False)

    def _round_seconds(self, processes: int) -> float:
        """The pause before the next try: this process sees its share of all tries."""
        now = time.monotonic()
        self._sent_at.append(now)
        with suppress(IndexError):  # other threads are here as well
            while self._sent_at[0] < now - 1:
                self._sent_at.popleft()
        tries_a_second = (len(self._sent_at) - 1) * processes
        return min(ROUND_SECONDS + tries_a_second / ROUND_RATE**2, _LONGEST_ROUND_SECONDS)

    def _parked(self, job: JobContext, reason: str) -> Parked | Failed:
        payload, now = decode(job.raw), self._config.clock.now()
        since = parked_since(payload)
        if since is None:
            payload["parked_at"] = stamp(now, self._config.redis.wire_version)
            payload.pop("parked_count", None)
        elif now - since > self._config.worker.park_days * _SECONDS_OF_DAY:
            return Failed(NoCapableWorker(f"{reason}, and none could for {self._config.worker.park_days} days"))
        return self._put_off(job, payload, _count(payload), LONG_SECONDS, reason, nobody=True)

    def _put_off(
        self, job: JobContext, payload: JobPayload, count: int, delays: Sequence[float], reason: str, *, nobody: bool
    ) -> Parked:
        payload["queue"] = job.queue
        payload["parked_count"] = count + 1
        spread = self._config.random.uniform(1 - _SPREAD, 1 + _SPREAD)
        return Parked(encode(payload), delays[min(count, len(delays) - 1)] * spread, reason, nobody, count + 1)


def why_not(declared: Declared | None, payload: JobPayload) -> str:
    """Why a job cannot run here; empty when it can, or when it does not say what its arguments were made for."""
    version = payload.get("app_version")
    pushed = f", pushed by version {version}," if isinstance(version, str) else ""
    if declared is None:
        return f"{payload['class']}{pushed} is not declared in this worker"
    if not isinstance(payload.get("signature"), str) or payload.get("signature") in declared.signatures:
        return ""
    try:
        declared.check_fits(payload["args"], payload.get("kwargs", {}))
    except InvalidArguments as error:
        return f"{error}{pushed.rstrip(',')}"
    return ""


def no_longer_parked(raw: bytes) -> bytes:
    """The bytes of a job that has run, without what was noted of it while it could not."""
    if b'"parked_' not in raw:
        return raw
    payload = decode(raw)
    forget_parking(payload)
    return encode(payload)


def forget_parking(payload: JobPayload) -> None:
    """Take out of a payload what was noted of the job while it could not run."""
    payload.pop("parked_at", None)
    payload.pop("parked_count", None)


def _somebody_can_for_sure(payload: JobPayload, serving: Sequence[Other]) -> bool:
    """Whether one of the others has what the job was made for."""
    wanted = wanted_by(payload)
    theirs = _digests(wanted.name, serving)
    return wanted.signature in theirs if wanted.signature else bool(theirs)


def _somebody_might(payload: JobPayload, declared: Declared | None, serving: Sequence[Other]) -> bool:
    """Whether its arguments may fit the parameters of one of the others, which only that worker can tell.

    It gets a few tries.
    """
    ours = None if declared is None else declared.signature.digest
    doubtful = any(digest != ours for digest in _digests(payload["class"], serving))
    return doubtful and parked_since(payload) is None and _count(payload) < DOUBTFUL_TRIES


def _digests(name: str, serving: Sequence[Other]) -> list[str]:
    return [other.known[name] for other in serving if other.known is not None and name in other.known]


def _count(payload: JobPayload) -> int:
    count: object = payload.get("parked_count")
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0
