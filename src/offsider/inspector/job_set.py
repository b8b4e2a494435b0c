"""The schedule, the retry set and the dead set, and what can be done with their jobs, one or many."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from offsider.client import Client
from offsider.client.prepared import Prepared
from offsider.core.compression import readable
from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.core.payload import JobPayload, decode
from offsider.inspector.chunk import Chunk, Preview
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.pace import steps
from offsider.storage import attempts, job_sets, quarantine
from offsider.storage.job_sets import Move, Moved
from offsider.storage.queue_walk import digest
from offsider.storage.working import DeadSetLimits
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.events import JobRemoved

_BATCH = 100
_SCANNED_AT_ONCE = 1_000
_EVERYTHING = JobFilter()
#: A cursor as Redis gives it: below 2 to the 64th.
_CURSOR = re.compile(r"[0-9]{1,19}")


class SetEntry(JobRecord):
    """A job in one of the sets.

    Every action compares first: it answers False, and does nothing, when the job has left the set meanwhile.
    """

    def __init__(self, job_set: JobSet, raw: bytes, score: float) -> None:
        super().__init__(raw)
        self._set = job_set
        self.score = score

    @property
    def key(self) -> str:
        """What finds it again: ``score|jid|digest``, or ``score|digest`` of bytes without a jid.

        The digest of its bytes tells it from others of the same score and jid.
        """
        return f"{self.score!r}|{self._name}"

    @property
    def _name(self) -> str:
        part, told_apart = self.key_part, digest(self.raw)
        return part if part == told_apart else f"{part}|{told_apart}"

    def is_called(self, name: str) -> bool:
        """Whether this is the part of a key behind the score, with or without the digest."""
        return name in (self._name, self.key_part)

    @property
    def at(self) -> float:
        """Epoch seconds: when it is due, or since when it is dead."""
        return self.score

    @property
    def is_error(self) -> bool:
        """Whether it has failed."""
        return bool(self.error_class)

    def retry(self) -> bool:
        """Run it again now. The try does not count: ``retry_count`` goes down by one.

        Raises:
            MalformedPayload: the bytes are no job, so nobody could run them.
        """
        return self._set.enqueue(self.raw, retried(self.raw))

    def add_to_queue(self) -> bool:
        """Run it now instead of when it is due. Raises MalformedPayload as `retry` does."""
        return self._set.enqueue(self.raw, decode(self.raw))

    def reschedule(self, at: float) -> bool:
        """Make it due at another time, in epoch seconds.

        Raises:
            ValueError: this is no time.
        """
        if not math.isfinite(at):
            raise ValueError(f"a job is rescheduled to finite epoch seconds, not to {at}")
        return self._set.reschedule(self, at)

    def kill(self) -> bool:
        """Move it to the dead set; death handlers run, with no error. A dead job counts as dead from now on."""
        return self._set.kill(self)

    def quarantine(self) -> bool:
        """Put it aside for ``worker.quarantine_days``."""
        return self._set.quarantine(self)

    def delete(self) -> bool:
        """Remove it for good."""
        return self._set.delete(self)


class JobSet:
    """One of the sorted sets. Iterating gives `SetEntry`, earliest first, in pages.

    Args:
        config: which server; default: this process's.
    """

    name = ""

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()
        self._client = Client(self._config, self._redis)
        section = self._config.worker
        self._limits = DeadSetLimits(section.dead_max_jobs, section.dead_timeout_seconds)

    @property
    def _key(self) -> str:
        return self._redis.keys.prefix + self.name

    # Looking

    def __len__(self) -> int:
        return job_sets.size(self._redis, self._key)

    def __iter__(self) -> Iterator[SetEntry]:
        return self._entries(job_sets.each(self._redis, self._key))

    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[SetEntry]:
        """Some jobs, from the earliest on, or from the latest; at any depth in no time.

        Args:
            start: how many to leave out.
            count: how many at most.
            newest_first: which end to begin at.
        """
        pairs = job_sets.page(self._redis, self._key, start, count, newest_first=newest_first)
        return list(self._entries(pairs))

    def fetch(self, score: float, jid: str | None = None) -> list[SetEntry]:
        """The jobs of one score, or those of them with this id."""
        if math.isnan(score):
            return []
        members = job_sets.with_score(self._redis, self._key, score)
        entries = self._entries((member, score) for member in members)
        return [entry for entry in entries if jid is None or entry.jid == jid]

    def entry(self, key: str) -> SetEntry | None:
        """The job with this `SetEntry.key`; None when it is gone, or the key is none.

        ``score|jid``, as Sidekiq's pages write it, will do as long as there is no other of that name.
        """
        score, _, name = key.partition("|")
        try:
            found = self.fetch(float(score))
        except ValueError:
            return None
        called = [entry for entry in found if entry.is_called(name)]
        return called[0] if len(called) == 1 else None

    def find_job(self, jid: str) -> SetEntry | None:
        """The job with this id; the server looks through the whole set."""
        found = self._matching(JobFilter(text=jid))
        return next((entry for entry in found if entry.jid == jid), None)

    def scan(
        self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None
    ) -> Chunk[SetEntry]:
        """Look for jobs for about as long as is given, in no order; one may come twice.

        Args:
            wanted: which jobs.
            cursor: of the chunk before; empty, or anything else that no chunk had, is the beginning.
            budget_ms: milliseconds.
            most: stop when about so many are found.
        """
        position = int(cursor) if _CURSOR.fullmatch(cursor) else 0
        chunk: Chunk[SetEntry] = Chunk([], 0, len(self), "")
        for step in steps(budget_ms, most):
            position, members = job_sets.scan_on(self._redis, self._key, wanted.needle, position, step)
            chunk.entries += filter(wanted.matches, self._entries(members))
            chunk.scanned += max(step, len(members))
            if not position or (most is not None and len(chunk.entries) >= most):
                break
        chunk.scanned = min(chunk.scanned, chunk.total)
        chunk.cursor = str(position or "")
        return chunk

    def preview(self, wanted: JobFilter, budget_ms: float = 100) -> Preview:
        """How many jobs a bulk action would reach, as far as that is found out in the time."""
        chunk = self.scan(wanted, budget_ms=budget_ms)
        return Preview(len({entry.raw for entry in chunk.entries}), chunk.scanned, chunk.complete)

    # Acting on many. What comes into the set meanwhile, moved jobs that failed again among it, may be left alone.

    def retry_all(self, wanted: JobFilter | None = None) -> int:
        """`SetEntry.retry` for every job that fits, all by default; answers how many have left the set.

        Bytes that are no job stay. So does a job that middleware raises for; the error handlers are told.
        """
        return self._act_on_all(wanted, lambda batch: self._enqueue_many(batch, retried))

    def enqueue_all(self, wanted: JobFilter | None = None) -> int:
        """`SetEntry.add_to_queue` for every job that fits, as `retry_all` does."""
        return self._act_on_all(wanted, lambda batch: self._enqueue_many(batch, decode))

    def kill_all(self, wanted: JobFilter | None = None) -> int:
        """`SetEntry.kill` for every job that fits, all by default; answers how many."""

        def kill(batch: list[SetEntry]) -> int:
            killed = job_sets.kill_many(self._redis, self._key, [entry.raw for entry in batch], self._limits)
            return self._tell(batch, killed, "kill")

        return self._act_on_all(wanted, kill)

    def delete_all(self, wanted: JobFilter | None = None) -> int:
        """`SetEntry.delete` for every job that fits, all by default; answers how many."""
        if wanted is None or wanted.empty:
            return self.clear()

        def delete(batch: list[SetEntry]) -> int:
            removed = job_sets.remove_many(self._redis, self._key, [entry.raw for entry in batch])
            return self._tell(batch, removed, "delete")

        return self._act_on_all(wanted, delete)

    def quarantine_all(self, wanted: JobFilter | None = None) -> int:
        """Put every job that fits aside for ``worker.quarantine_days``, all by default; answers how many."""
        return self._act_on_all(wanted, self._quarantine_many)

    def clear(self) -> int:
        """Delete every job, and answer how many there were."""
        told = 0
        if self._config.events.listened("job_removed"):
            told = self._take_one_by_one()
        return told + job_sets.clear(self._redis, self._key)

    def pop_each(self) -> Iterator[SetEntry]:
        """Take the jobs out, earliest first, until none is left.

        From then on a job exists in the caller's memory only.
        """
        while (taken := job_sets.take_first(self._redis, self._key)) is not None:
            self._announce(taken[0], "delete")
            yield SetEntry(self, *taken)

    # Acting on one, for SetEntry

    def enqueue(self, member: bytes, payload: JobPayload) -> bool:
        """Move a member to its queue with a payload prepared anew, through client middleware."""
        prepared = self._prepare(payload)
        if prepared is None:
            return job_sets.remove(self._redis, self._key, member)
        move = Move(member, prepared.raw, prepared.queue)
        moved = job_sets.enqueue(self._redis, self._key, [move], only_due=False)[0]
        if moved is Moved.REFUSED:
            msg = f"queue:{prepared.queue} is not a list and takes no jobs; the job stays in {self.name}"
            raise RedisRefused(msg, code="WRONGTYPE")
        return moved is Moved.DONE

    def reschedule(self, entry: SetEntry, at: float) -> bool:
        """Give a job another score."""
        moved = job_sets.reschedule(self._redis, self._key, entry.raw, at)
        if moved:
            entry.score = at
        return moved

    def kill(self, entry: SetEntry) -> bool:
        """Move a job to the dead set as it is."""
        return bool(self._tell([entry], [job_sets.kill(self._redis, self._key, entry.raw, self._limits)], "kill"))

    def quarantine(self, entry: SetEntry) -> bool:
        """Put a job aside."""
        return bool(self._quarantine_many([entry]))

    def delete(self, entry: SetEntry) -> bool:
        """Delete a job."""
        return bool(self._tell([entry], [job_sets.remove(self._redis, self._key, entry.raw)], "delete"))

    # The parts of these

    def _entries(self, pairs: Iterable[tuple[bytes, float]]) -> Iterator[SetEntry]:
        return (SetEntry(self, member, score) for member, score in pairs)

    def _matching(self, wanted: JobFilter) -> Iterator[SetEntry]:
        # The server passes over most of a set, when it knows a text to look for.
        pairs = (
            job_sets.scan(self._redis, self._key, f"*{job_sets.literal(wanted.needle)}*", count=_SCANNED_AT_ONCE)
            if wanted.needle
            else job_sets.each(self._redis, self._key)
        )
        return filter(wanted.matches, self._entries(pairs))

    def _act_on_all(self, wanted: JobFilter | None, act: Callable[[list[SetEntry]], int]) -> int:
        done, met = 0, _Met(self._config.clock.now())
        matching = self._matching(wanted if wanted is not None else _EVERYTHING)
        fresh = (entry for entry in matching if met.first_time(entry))
        while batch := list(islice(fresh, _BATCH)):
            done += act(batch)
        return done

    def _enqueue_many(self, batch: list[SetEntry], change: Callable[[bytes], JobPayload]) -> int:
        moves: list[Move] = []
        stopped: list[bytes] = []
        for entry in batch:
            try:
                prepared = self._prepare(change(entry.raw))
            except MalformedPayload:
                continue
            except Exception as error:  # noqa: BLE001 - middleware may raise anything, and one job is not all of them
                self._config.handle_error(error, {"context": f"moving a job of {self.name}", "job": entry.payload})
                continue
            if prepared is None:
                stopped.append(entry.raw)
            else:
                moves.append(Move(entry.raw, prepared.raw, prepared.queue))
        moved = job_sets.enqueue(self._redis, self._key, moves, only_due=False) if moves else []
        removed = job_sets.remove_many(self._redis, self._key, stopped) if stopped else []
        return sum(how is Moved.DONE for how in moved) + sum(removed)

    def _prepare(self, payload: JobPayload) -> Prepared | None:
        return self._client.reenqueue(payload, "schedule" if self.name == "schedule" else "retry")

    def _quarantine_many(self, batch: list[SetEntry]) -> int:
        members = [(entry.raw, entry.score) for entry in batch]
        days, now = self._config.worker.quarantine_days, self._config.clock.now()
        moved = quarantine.put_from_set(self._redis, self.name, members, days=days, at=now, how="quarantine")
        return self._tell(batch, moved, "quarantine")

    def _take_one_by_one(self) -> int:
        """All jobs that are there now, in pages: each is told of."""
        taken, size = 0, len(self)
        while taken < size:
            members = job_sets.take_earliest(self._redis, self._key, min(_SCANNED_AT_ONCE, size - taken))
            if not members:
                break
            taken += len(members)
            for member in members:
                self._announce(member, "clear")
        return taken

    def _tell(self, batch: list[SetEntry], gone: list[bool], how: str) -> int:
        """Announce those that have gone, and answer how many."""
        for entry, has_gone in zip(batch, gone, strict=True):
            if has_gone:
                self._announce(entry.raw, how)
                if how == "kill" and entry.payload is not None:
                    self._tell_of_death(readable(entry.payload))
        if how == "delete":
            removed = (entry.jid for entry, has_gone in zip(batch, gone, strict=True) if has_gone)
            attempts.forget(self._redis, [jid for jid in removed if jid])
        return sum(gone)

    def _tell_of_death(self, payload: JobPayload) -> None:
        for handler in self._config.death_handlers:
            try:
                handler(payload, None)
            except Exception as error:  # noqa: BLE001 - a broken handler must not keep the others from being told
                self._config.handle_error(error, {"context": "a death handler", "job": payload})

    def _announce(self, raw: bytes, how: str) -> None:
        self._config.events.emit("job_removed", JobRemoved(raw, self.name, how, self._config.server))


def retried(raw: bytes) -> JobPayload:
    """A stored job as it is when somebody retries it by hand: that try does not count. Raises MalformedPayload."""
    payload = decode(raw)
    if "retry_count" in payload:
        payload["retry_count"] -= 1
    return payload


class _Met:
    """The jobs that a bulk action has met.

    Several members may share a jid, and each is met by its bytes. But a job that was moved may fail at once and be
    here again, with other bytes: it was met before, and enqueued since the action began.
    """

    def __init__(self, began_at: float) -> None:
        # Stamps are whole milliseconds.
        self._began_at = math.floor(began_at * 1000) / 1000
        self._jids: set[str] = set()
        self._digests: set[bytes] = set()

    def first_time(self, entry: SetEntry) -> bool:
        """Whether this one is met for the first time; it is known from now on."""
        known = hashlib.blake2b(entry.raw, digest_size=16).digest()
        if known in self._digests or self._is_back(entry):
            return False
        self._digests.add(known)
        if entry.jid:
            self._jids.add(entry.jid)
        return True

    def _is_back(self, entry: SetEntry) -> bool:
        return entry.jid in self._jids and (entry.enqueued_at or 0) >= self._began_at


class ScheduledSet(JobSet):
    """Jobs that are due later."""

    name = "schedule"


class RetrySet(JobSet):
    """Jobs that failed and will be tried again."""

    name = "retry"


class DeadSet(JobSet):
    """Jobs that will not be tried again, and bytes that never were jobs."""

    name = "dead"
