"""The schedule, the retry set and the dead set, and actions on their jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from offsider.client import Client
from offsider.client.prepared import Prepared
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.clock import END_OF_TIME
from offsider.core.compression import readable
from offsider.core.errors import InvalidOptions, JobKilled, MalformedPayload, RedisRefused
from offsider.core.malformed import listable
from offsider.core.normalize import normalize
from offsider.core.payload import JobPayload, decode, stamp
from offsider.inspector.counted import Counted, CountedByScan
from offsider.inspector.job_filter import JobFilter, refuse_empty
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing, removing
from offsider.inspector.scan import Chunk, deadline, first_pages, scan_set
from offsider.runtime.events import JobRemoved
from offsider.storage import attempts, job_sets, quarantine
from offsider.storage.job_sets import Move, MoveResult
from offsider.storage.queue_walk import digest
from offsider.storage.scripts import RunsScripts

KILLED = "killed by hand"
_BATCH = 100
_SCANNED_AT_ONCE = 1_000


class SetEntry(JobRecord):
    """A job in one of the sets.

    Every action compares first: if the job has left the set, it does nothing and returns False.

    Attributes:
        score: epoch seconds when it is due; in the dead set, when it was moved there.
    """

    def __init__(self, job_set: JobSet, raw: bytes, score: float) -> None:
        super().__init__(raw)
        self._set = job_set
        self.score = score

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
    def aged_since(self) -> float | None:
        """When its age begins: in the dead set its death, in the retry set its last failure."""
        match self._set.name:
            case DeadSet.name:
                return self.score
            case RetrySet.name:
                return self.failed_at if self.retried_at is None else self.retried_at
            case _:
                return super().aged_since

    @property
    def is_error(self) -> bool:
        """Whether it has failed."""
        return bool(self.error_class)

    def retry(self) -> bool:
        """Run it again now. This attempt does not count: ``retry_count`` decreases by one.

        Raises:
            MalformedPayload: the bytes are not a valid job.
        """
        return self._set.enqueue(self.raw, retried(self.raw))

    def add_to_queue(self) -> bool:
        """Run it now instead of at its time. Raises MalformedPayload as `retry` does."""
        return self._set.enqueue(self.raw, decode(self.raw))

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
        return self._set.kill(self, reason)

    def quarantine(self) -> bool:
        """Move it to the quarantine for ``worker.quarantine_days``."""
        return self._set.quarantine(self)

    def delete(self) -> bool:
        """Delete it permanently."""
        return self._set.delete(self)


class SetMoves:
    """Moves jobs out of one set, after checking that they are still there. Returns the outcome of each.

    Args:
        name: the set's key without prefix.
    """

    def __init__(self, here: Installation, name: str) -> None:
        self._here = here
        self._redis = here.redis
        self._name = name
        self._key = here.redis.keys.prefix + name
        self._client = Client(here, here.redis)

    def enqueue(self, member: bytes, payload: JobPayload) -> bool:
        """Move a member to its queue, with its payload passed through client middleware.

        Raises:
            RedisRefused: the queue's key is not a list.
        """
        prepared = self._prepare(payload)
        if prepared is None:
            return job_sets.remove(self._redis, self._key, [member])[0]
        moved = self._move([Move(member, prepared.raw, prepared.queue)])[0]
        if moved is MoveResult.REFUSED:
            msg = f"queue:{prepared.queue} is not a list and cannot store jobs; the job stays in {self._name}"
            raise RedisRefused(msg, code="WRONGTYPE")
        return moved is MoveResult.DONE

    def enqueue_each(self, batch: Sequence[SetEntry], change: Callable[[bytes], JobPayload]) -> list[MoveResult]:
        """Move jobs to their queues, with changed payloads that are passed through client middleware."""
        how = dict.fromkeys((entry.raw for entry in batch), MoveResult.REFUSED)
        moves: list[Move] = []
        stopped: list[bytes] = []
        for entry in batch:
            try:
                prepared = self._prepare(change(entry.raw))
            except MalformedPayload:
                continue
            except Exception as error:  # noqa: BLE001 - middleware may raise any error, which must not stop the other jobs
                self._here.config.handle_error(
                    error, {"context": f"moving a job of {self._name}", "job": entry.payload}
                )
                continue
            if prepared is None:
                stopped.append(entry.raw)
            else:
                moves.append(Move(entry.raw, prepared.raw, prepared.queue))
        moved = self._move(moves) if moves else []
        removed = job_sets.remove(self._redis, self._key, stopped) if stopped else []
        how |= {move.member: each for move, each in zip(moves, moved, strict=True)}
        how |= {raw: MoveResult.DONE if gone else MoveResult.GONE for raw, gone in zip(stopped, removed, strict=True)}
        return list(how.values())

    def _move(self, moves: list[Move]) -> list[MoveResult]:
        redis = placing(self._here, ((move.payload, f"queue:{move.queue}", 0.0) for move in moves))
        return job_sets.enqueue(redis, self._key, moves, only_due=False)

    def _prepare(self, payload: JobPayload) -> Prepared | None:
        return self._client.reenqueue(payload, "schedule" if self._name == "schedule" else "retry")

    def kill(self, batch: Sequence[SetEntry], reason: str) -> list[MoveResult]:
        """Move jobs to the dead set, and call the death handlers."""
        now = stamp(self._here.config.clock.now(), self._here.settings.wire_version)
        members = [(entry.raw, listable(entry.raw, now)) for entry in batch]
        killed = job_sets.kill(
            self._removing(batch, "kill"), self._key, members, self._here.config.worker.dead_set_limits
        )
        return self._emit_removed(batch, killed, "kill", reason)

    def delete(self, batch: Sequence[SetEntry], how: str = "delete") -> list[MoveResult]:
        """Remove jobs."""
        removed = job_sets.remove(self._removing(batch, how), self._key, [entry.raw for entry in batch])
        return self._emit_removed(batch, removed, how)

    def quarantine(self, batch: Sequence[SetEntry]) -> list[MoveResult]:
        """Move jobs to the quarantine."""
        members = [(entry.raw, entry.score) for entry in batch]
        days, now = self._here.config.worker.quarantine_days, self._here.config.clock.now()
        quarantine.trim(self._redis)
        redis = self._removing(batch, "quarantine")
        moved = quarantine.put_from_set(redis, self._name, members, days=days, at=now, how="quarantine")
        return self._emit_removed(batch, moved, "quarantine")

    def _removing(self, batch: Sequence[SetEntry], how: str) -> RunsScripts:
        return removing(self._here, (entry.raw for entry in batch), self._name, how)

    def _emit_removed(
        self, batch: Sequence[SetEntry], gone: list[bool], how: str, reason: str = ""
    ) -> list[MoveResult]:
        """Emit events for the removed jobs, and return the outcome of each."""
        for entry, has_gone in zip(batch, gone, strict=True):
            if has_gone:
                removed = JobRemoved(entry.raw, self._name, how, self._here.server)
                self._here.config.events.emit("job_removed", removed)
                if how == "kill" and entry.payload is not None:
                    self._here.config.call_death_handlers(readable(entry.payload), JobKilled(reason))
        if how == "delete":
            jids = (entry.jid for entry, has_gone in zip(batch, gone, strict=True) if has_gone)
            attempts.forget(self._redis, [jid for jid in jids if jid])
        return [MoveResult.DONE if has_gone else MoveResult.GONE for has_gone in gone]


def retried(raw: bytes) -> JobPayload:
    """Return the payload for a manual retry, which does not count as an attempt. Raises MalformedPayload."""
    payload = decode(raw)
    count = normalize(payload).get("retry_count")
    if count is not None:
        payload["retry_count"] = count - 1
    return payload


class JobSet(CountedByScan):
    """One of the sorted sets. Iterating yields `SetEntry`, earliest first, and reads in pages.

    Args:
        config: selects the server; default: the configuration of this process.

    Attributes:
        name: the key of the set, without prefix: ``schedule``, ``retry`` or ``dead``.
    """

    name = ""

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._here = Installation.of(config)
        self._redis = self._here.redis
        self._moves = SetMoves(self._here, self.name)

    @property
    def _key(self) -> str:
        return self._redis.keys.prefix + self.name

    # Reading

    def __len__(self) -> int:
        return job_sets.size(self._redis, self._key)

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

    def find_job(self, jid: str) -> SetEntry | None:
        """Return the job with this ID; the server scans the whole set."""
        found = self._matching(JobFilter(text=jid))
        return next((entry for entry in found if entry.jid == jid), None)

    def scan(
        self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None
    ) -> Chunk[SetEntry]:
        """Scan for jobs within a time budget, in no order; a job may be returned twice.

        Args:
            wanted: the filter.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: approximate maximum number of matches.
        """

        def read(position: int, step: int) -> tuple[int, int, Iterable[SetEntry]]:
            position, members = job_sets.scan_on(self._redis, self._key, wanted.needle, position, step)
            return position, len(members), filter(wanted.matches, self._entries(members))

        return scan_set(read, len(self), cursor, budget_ms, most)

    # Bulk actions on counted jobs, or on the jobs that match at the start of the action.

    def retry_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """`SetEntry.retry` for every matching job, all by default; returns the number of jobs removed from the set.

        Malformed jobs stay. So do jobs for which middleware raises; the error is passed to the error handlers.

        Args:
            wanted: a filter or a count.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        return self._act_on_all(wanted, lambda batch: self._moves.enqueue_each(batch, retried), budget_ms)

    def enqueue_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """`SetEntry.add_to_queue` for every matching job; see `retry_all`."""
        return self._act_on_all(wanted, lambda batch: self._moves.enqueue_each(batch, decode), budget_ms)

    def kill_all(
        self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None, reason: str = KILLED
    ) -> int:
        """`SetEntry.kill` for every matching job; see `retry_all`."""
        return self._act_on_all(wanted, lambda batch: self._moves.kill(batch, reason), budget_ms)

    def delete_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """`SetEntry.delete` for every matching job; see `retry_all`."""
        if wanted is None:
            return self.clear()
        return self._act_on_all(wanted, self._moves.delete, budget_ms)

    def quarantine_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """Move every matching job to the quarantine for ``worker.quarantine_days``; see `retry_all`."""
        return self._act_on_all(wanted, self._moves.quarantine, budget_ms)

    def clear(self) -> int:
        """Delete every job, and return their number."""
        removed = 0
        if self._here.config.removal_effects or self._here.config.events.listened("job_removed"):
            for page in first_pages(len(self), _SCANNED_AT_ONCE, self._first):
                removed += self._moves.delete(page, "clear").count(MoveResult.DONE)
        return removed + job_sets.clear(self._redis, self._key)

    def pop_each(self) -> Iterator[SetEntry]:
        """Remove the jobs one by one, earliest first, until the set is empty.

        A yielded job exists only in the caller's memory.
        """
        while first := self._first(1):
            if self._moves.delete(first) == [MoveResult.DONE]:
                yield first[0]

    # Actions on one job, for SetEntry

    def enqueue(self, member: bytes, payload: JobPayload) -> bool:
        """Move a member to its queue, with its payload passed through client middleware."""
        return self._moves.enqueue(member, payload)

    def reschedule(self, entry: SetEntry, at: float) -> bool:
        """Change the score of a job."""
        redis = placing(self._here, [(entry.raw, self.name, at)])
        moved = job_sets.reschedule(redis, self._key, entry.raw, at)
        if moved:
            entry.score = at
        return moved

    def kill(self, entry: SetEntry, reason: str = KILLED) -> bool:
        """Move a job to the dead set; a malformed payload is wrapped."""
        return self._moves.kill([entry], reason) == [MoveResult.DONE]

    def quarantine(self, entry: SetEntry) -> bool:
        """Move a job to the quarantine."""
        return self._moves.quarantine([entry]) == [MoveResult.DONE]

    def delete(self, entry: SetEntry) -> bool:
        """Delete a job."""
        return self._moves.delete([entry]) == [MoveResult.DONE]

    # Helpers

    def _entries(self, pairs: Iterable[tuple[bytes, float]]) -> Iterator[SetEntry]:
        return (SetEntry(self, member, score) for member, score in pairs)

    def _matching(self, wanted: JobFilter) -> Iterator[SetEntry]:
        # The server skips most of the set if the filter has a needle.
        return filter(wanted.matches, self._entries(pair for _, page in self._walk(wanted, "") for pair in page))

    def _walk(self, wanted: JobFilter, cursor: str) -> Iterator[tuple[str, list[tuple[bytes, float]]]]:
        """Iterate over the set in pages, each with the cursor of the next page; the last cursor is empty.

        The server skips most members if the filter has a needle. Without one the members are sorted, earliest first.
        """
        if wanted.needle:
            position = int(cursor or 0)
            while True:
                position, found = job_sets.scan_on(self._redis, self._key, wanted.needle, position, _SCANNED_AT_ONCE)
                yield str(position or ""), found
                if not position:
                    return
        members = job_sets.each(self._redis, self._key, float(cursor or -math.inf))
        while page := list(islice(members, _SCANNED_AT_ONCE)):
            yield repr(page[-1][1]), page
        yield "", []

    def _act_on_all(
        self,
        wanted: JobFilter | Counted | None,
        act: Callable[[list[SetEntry]], list[MoveResult]],
        budget_ms: float | None,
    ) -> int:
        refuse_empty(wanted)
        counted = wanted if isinstance(wanted, Counted) else self.count(wanted)
        began, is_over = counted.cursor, deadline(budget_ms)
        for cursor, members in self._walk(counted.wanted, began):
            raws = [member for member, _ in members]
            meant = list(self._entries(members[at] for at in counted.among(raws)))
            for first in range(0, len(meant), _BATCH):
                batch = meant[first : first + _BATCH]
                how = act(batch)
                counted.record(
                    *(
                        [entry.raw for entry, moved in zip(batch, how, strict=True) if moved is each]
                        for each in (MoveResult.DONE, MoveResult.REFUSED, MoveResult.GONE)
                    )
                )
            counted.cursor = cursor
            # The cursor of an ordered walk is a score, and many jobs may share it: do not stop before it has changed.
            if cursor != began and is_over():
                break
        counted.finished = not counted.cursor
        return counted.done

    def _first(self, count: int) -> list[SetEntry]:
        return [*self._entries(job_sets.page(self._redis, self._key, 0, count))]


class ScheduledSet(JobSet):
    """Jobs that are scheduled for later."""

    name = "schedule"


class RetrySet(JobSet):
    """Jobs that failed and will be retried."""

    name = "retry"


class DeadSet(JobSet):
    """Jobs that will not be retried, and malformed payloads."""

    name = "dead"
