"""The schedule, the retry set and the dead set, and actions on their jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from offsider.client import Client
from offsider.config.config import Config
from offsider.config.hooks import Prepared
from offsider.config.installation import Installation
from offsider.core.clock import END_OF_TIME
from offsider.core.compression import readable
from offsider.core.errors import InvalidOptions, JobKilled, MalformedPayload, RedisRefused
from offsider.core.malformed import listable
from offsider.core.normalize import normalize
from offsider.core.payload import JobPayload, decode, stamp
from offsider.inspector.counted import Counted
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing
from offsider.storage import attempts, job_sets
from offsider.storage.places import QUEUES, Move, MoveResult, MoveTarget, PlacedJob, dead_set
from offsider.storage.queue_walk import digest

KILLED = "killed by hand"


class SetEntry(JobRecord):
    """A job in one of the sets.

    Every action compares first: if the job has left the set, it does nothing and returns False.

    Attributes:
        score: epoch seconds when it is due; in the dead set, when it was moved there.
    """

    def __init__(self, job_set: JobSet, raw: bytes, score: float) -> None:
        super().__init__(raw, score=score)
        self._set = job_set

    @property
    def key(self) -> str:
        """The key to find it again: ``score|jid|digest``, or ``score|digest`` for bytes without a jid.

        The digest of its bytes distinguishes it from others with the same score and jid.
        """
        return f"{self.score!r}|{self._name}"

    @property
    def _name(self) -> str:
        part, own_digest = self.key_part, digest(self.raw)
        return part if part == own_digest else f"{part}|{own_digest}"

    def is_called(self, name: str) -> bool:
        """Whether ``name`` is the part of its key after the score, with or without the digest."""
        return name in (self._name, self.key_part)

    @property
    def at(self) -> float:
        """Epoch seconds at which it is due, or died."""
        return self.score

    @property
    def died_at(self) -> float | None:
        return self.score if self._set.name == DeadSet.name else None

    @property
    def due_at(self) -> float | None:
        return None if self._set.name == DeadSet.name else self.score

    @property
    def is_error(self) -> bool:
        """Whether it has failed."""
        return bool(self.error_class)

    def retry(self) -> bool:
        """Run it again now. This attempt does not count: ``retry_count`` decreases by one.

        Raises:
            MalformedPayload: the bytes are not a valid job.
        """
        return self._set.enqueue(self, retried)

    def add_to_queue(self) -> bool:
        """Run it now instead of at its time. Raises MalformedPayload as `retry` does."""
        return self._set.enqueue(self, decode)

    def reschedule(self, at: float) -> bool:
        """Change the time at which it is due, in epoch seconds.

        Raises:
            InvalidOptions: ``at`` is not finite, or after the year 9999.
        """
        if not 0 <= at < END_OF_TIME:
            raise InvalidOptions("reschedule expects epoch seconds before the year 10000, from time.time() for example")
        return self._set.reschedule(self, at)

    def kill(self, reason: str = KILLED) -> bool:
        """Move the job to the dead set and pass `JobKilled` to death handlers; a dead job gets a new time of death.

        Args:
            reason: message of `JobKilled`.
        """
        return self._set.kill_each([self], reason) == [MoveResult.DONE]

    def quarantine(self) -> bool:
        """Move it to the quarantine for ``worker.quarantine_days``."""
        return self._set.quarantine(self)

    def delete(self) -> bool:
        """Delete it permanently."""
        return self._set.delete(self)


def retried(raw: bytes) -> JobPayload:
    """Return the payload for a manual retry, which does not count as an attempt. Raises MalformedPayload."""
    payload = decode(raw)
    count = normalize(payload).get("retry_count")
    if count is not None:
        payload["retry_count"] = count - 1
    return payload


class JobSet(JobPlace[SetEntry]):
    """One of the sorted sets. Iterating yields `SetEntry`, earliest first, and reads in pages.

    Args:
        config: selects the server; default: the configuration of this process.

    Attributes:
        name: the key of the set, without prefix: ``schedule``, ``retry`` or ``dead``.
    """

    name = ""

    def __init__(self, config: Config | Installation | None = None) -> None:
        super().__init__(Installation.of(config), self.name)
        self._key = self._place.key
        self._client = Client(self._server, self._redis)

    # Reading

    def __iter__(self) -> Iterator[SetEntry]:
        return self._entries(job_sets.each(self._redis, self._key))

    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[SetEntry]:
        """Return one page of jobs, earliest first by default; equally fast at any depth.

        Args:
            start: number of jobs to skip.
            count: maximum number of jobs.
            newest_first: latest first.
        """
        pairs = job_sets.page(self._redis, self._key, start, count, newest_first=newest_first)
        return list(self._entries(pairs))

    def fetch(self, score: float, jid: str | None = None) -> list[SetEntry]:
        """Return the jobs with this score, and with this ID if given."""
        if math.isnan(score):
            return []
        members = job_sets.with_score(self._redis, self._key, score)
        entries = self._entries((member, score) for member in members)
        return [entry for entry in entries if jid is None or entry.jid == jid]

    def entry(self, key: str) -> SetEntry | None:
        """Return the job with this `SetEntry.key`; None if it no longer exists or the key is malformed.

        ``score|jid``, the form of Sidekiq's pages, works if no other job has the same score and jid.
        """
        score, _, name = key.partition("|")
        try:
            found = self.fetch(float(score))
        except ValueError:
            return None
        called = [entry for entry in found if entry.is_called(name)]
        return called[0] if len(called) == 1 else None

    # Bulk actions on counted jobs, or on the jobs that match at the start of the action.

    def retry_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """`SetEntry.retry` for every matching job, all by default; returns the number of jobs removed from the set.

        Malformed jobs stay. So do jobs for which middleware raises; the error is passed to the error handlers.

        Args:
            wanted: a filter or a count.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        return self._act_on_all(wanted, lambda batch: self.enqueue_each(batch, retried), budget_ms)

    def enqueue_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """`SetEntry.add_to_queue` for every matching job; see `retry_all`."""
        return self._act_on_all(wanted, lambda batch: self.enqueue_each(batch, decode), budget_ms)

    def kill_all(
        self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None, reason: str = KILLED
    ) -> int:
        """`SetEntry.kill` for every matching job; see `retry_all`."""
        return self._act_on_all(wanted, lambda batch: self.kill_each(batch, reason), budget_ms)

    def pop_each(self) -> Iterator[SetEntry]:
        """Remove the jobs one by one, earliest first, until the set is empty.

        A yielded job exists only in the caller's memory.
        """
        while first := self.page(0, 1):
            if self.delete(first[0]):
                yield first[0]

    # Actions on some jobs of the set, one of them for `SetEntry`

    def enqueue(self, entry: SetEntry, change: Callable[[bytes], JobPayload]) -> bool:
        """Move a job to its queue, with a changed payload that is passed through client middleware.

        Raises:
            RedisRefused: the queue's key is not a list.
        """
        prepared = self._prepare(change(entry.raw))
        [moved] = self._enqueue({entry.raw: prepared}).values()
        if moved is MoveResult.REFUSED and prepared is not None:
            msg = f"queue:{prepared.queue} is not a list and cannot store jobs; the job stays in {self.name}"
            raise RedisRefused(msg, code="WRONGTYPE")
        return moved is MoveResult.DONE

    def enqueue_each(self, entries: Sequence[SetEntry], change: Callable[[bytes], JobPayload]) -> list[MoveResult]:
        """`enqueue` for some jobs; malformed jobs and those for which middleware raises are refused."""
        prepared: dict[bytes, Prepared | None] = {}
        for entry in entries:
            try:
                prepared[entry.raw] = self._prepare(change(entry.raw))
            except MalformedPayload:
                continue
            except Exception as error:  # noqa: BLE001 - middleware may raise any error, which must not stop the other jobs
                context = {"context": f"moving a job of {self.name}", "job": entry.payload}
                self._server.config.handle_error(error, context)
        results = self._enqueue(prepared)
        return [results.get(entry.raw, MoveResult.REFUSED) for entry in entries]

    def reschedule(self, entry: SetEntry, at: float) -> bool:
        """Change the score of a job."""
        redis = placing(self._server, [(entry.raw, self.name, at)])
        again = Move(entry.raw, entry.raw, repr(at))
        moved = self._place.move([again], MoveTarget("set", self.name), through=redis) == [MoveResult.DONE]
        if moved:
            entry.score = at
        return moved

    def kill_each(self, entries: Sequence[SetEntry], reason: str = KILLED) -> list[MoveResult]:
        """Move jobs to the dead set, malformed payloads wrapped, and call the death handlers."""
        now = stamp(self._server.config.clock.now(), self._server.settings.wire_version)
        moves = [Move(entry.raw, listable(entry.raw, now)) for entry in entries]
        results = self._leave(entries, moves, dead_set(self._server.config.worker.dead_set_limits), "kill")
        for entry, result in zip(entries, results, strict=True):
            if result is MoveResult.DONE and entry.payload is not None:
                self._server.config.call_death_handlers(readable(entry.payload), JobKilled(reason))
        return results

    def delete_each(self, records: Sequence[SetEntry], how: str = "delete") -> list[MoveResult]:
        """Delete jobs with their failed attempts, and return the result of each."""
        results = super().delete_each(records, how)
        jids = (entry.jid for entry, result in zip(records, results, strict=True) if result is MoveResult.DONE)
        attempts.forget(self._redis, [jid for jid in jids if jid])
        return results

    # Helpers

    def _enqueue(self, prepared: Mapping[bytes, Prepared | None]) -> dict[bytes, MoveResult]:
        """Move jobs to their queues; delete those whose push client middleware has canceled."""
        moves = [Move(raw, job.raw, job.queue) for raw, job in prepared.items() if job is not None]
        canceled = [SetEntry(self, raw, 0.0) for raw, job in prepared.items() if job is None]
        redis = placing(self._server, ((move.payload, f"queue:{move.detail!s}", 0.0) for move in moves))
        results = self._place.move(moves, QUEUES, through=redis) if moves else []
        results += self.delete_each(canceled) if canceled else []
        raws = (*(move.job for move in moves), *(entry.raw for entry in canceled))
        return dict(zip(raws, results, strict=True))

    def _prepare(self, payload: JobPayload) -> Prepared | None:
        return self._client.reenqueue(payload, "schedule" if self.name == "schedule" else "retry")

    def key_of(self, record: SetEntry) -> str:
        """Return `SetEntry.key`."""
        return record.key

    def _record(self, stored: PlacedJob) -> SetEntry:
        return SetEntry(self, stored.raw, stored.score)

    def _unlink(self) -> int:
        return job_sets.clear(self._redis, self._key)

    def _entries(self, pairs: Iterable[tuple[bytes, float]]) -> Iterator[SetEntry]:
        return (SetEntry(self, member, score) for member, score in pairs)


class ScheduledSet(JobSet):
    """Jobs that are scheduled for later."""

    name = "schedule"


class RetrySet(JobSet):
    """Jobs that failed and will be retried."""

    name = "retry"


class DeadSet(JobSet):
    """Jobs that will not be retried, and malformed payloads."""

    name = "dead"
