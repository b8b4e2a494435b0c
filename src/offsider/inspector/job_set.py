"""The schedule, the retry set and the dead set, and what can be done with one of their jobs."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.client import Client
from offsider.core.errors import RedisRefused
from offsider.core.payload import decode
from offsider.inspector.job_record import JobRecord
from offsider.storage import job_sets
from offsider.storage.job_sets import Move, Moved
from offsider.storage.working import DeadSetLimits
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.events import JobRemoved


class SetEntry(JobRecord):
    """A job in one of the sets.

    Every action compares first: it answers False, and does nothing, when the job has left the set meanwhile.
    """

    def __init__(self, job_set: JobSet, raw: bytes, score: float) -> None:
        super().__init__(raw)
        self._set = job_set
        self.score = score

    @property
    def at(self) -> float:
        """Epoch seconds: when it is due, or since when it is dead."""
        return self.score

    def retry(self) -> bool:
        """Run it again now. The try does not count: ``retry_count`` goes down by one.

        Raises:
            MalformedPayload: the bytes are no job, so nobody could run them.
        """
        payload = decode(self.raw)
        if "retry_count" in payload:
            payload["retry_count"] -= 1
        return self._set.enqueue(self.raw, payload)

    def add_to_queue(self) -> bool:
        """Run it now instead of when it is due. Raises MalformedPayload as `retry` does."""
        return self._set.enqueue(self.raw, decode(self.raw))

    def kill(self) -> bool:
        """Move it to the dead set; death handlers run, with no error. A dead job counts as dead from now on."""
        return self._set.kill(self)

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

    def __len__(self) -> int:
        return job_sets.size(self._redis, self._key)

    def __iter__(self) -> Iterator[SetEntry]:
        for raw, score in job_sets.each(self._redis, self._key):
            yield SetEntry(self, raw, score)

    def find_job(self, jid: str) -> SetEntry | None:
        """The job with this id; looks through the whole set."""
        pattern = "".join("\\" + letter if letter in "*?[]\\^" else letter for letter in jid)
        for raw, score in job_sets.scan(self._redis, self._key, f"*{pattern}*"):
            entry = SetEntry(self, raw, score)
            if entry.jid == jid:
                return entry
        return None

    def clear(self) -> int:
        """Delete every job, and answer how many there were."""
        removed = job_sets.clear(self._redis, self._key)
        for raw in removed:
            self._announce(raw, "clear")
        return len(removed)

    def enqueue(self, member: bytes, payload: object) -> bool:
        """Move a member to its queue with a payload prepared anew, through client middleware."""
        reason = "schedule" if self.name == "schedule" else "retry"
        prepared = self._client.reenqueue(payload, reason)  # type: ignore[arg-type]
        if prepared is None:
            return job_sets.remove(self._redis, self._key, member)
        move = Move(member, prepared.raw, prepared.queue)
        moved = job_sets.enqueue(self._redis, self._key, [move], only_due=False)[0]
        if moved is Moved.REFUSED:
            msg = f"queue:{prepared.queue} is not a list and takes no jobs; the job stays in {self.name}"
            raise RedisRefused(msg, code="WRONGTYPE")
        return moved is Moved.DONE

    def kill(self, entry: SetEntry) -> bool:
        """Move a job to the dead set as it is."""
        if not job_sets.kill(self._redis, self._key, entry.raw, self._limits):
            return False
        self._announce(entry.raw, "kill")
        if entry.payload is not None:
            for handler in self._config.death_handlers:
                try:
                    handler(entry.payload, None)
                except Exception as error:  # noqa: BLE001 - a broken handler must not keep the others from being told
                    self._config.handle_error(error, {"context": "a death handler", "job": entry.payload})
        return True

    def delete(self, entry: SetEntry) -> bool:
        """Delete a job."""
        deleted = job_sets.remove(self._redis, self._key, entry.raw)
        if deleted:
            self._announce(entry.raw, "delete")
        return deleted

    def _announce(self, raw: bytes, how: str) -> None:
        self._config.events.emit("job_removed", JobRemoved(raw, self.name, how))


class ScheduledSet(JobSet):
    """Jobs that are due later."""

    name = "schedule"


class RetrySet(JobSet):
    """Jobs that failed and will be tried again."""

    name = "retry"


class DeadSet(JobSet):
    """Jobs that will not be tried again, and bytes that never were jobs."""

    name = "dead"
