"""A queue from the outside."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.inspector.job_record import JobRecord
from offsider.storage import queues
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.events import JobRemoved

_PAGE = 50


class Queue:
    """Iterating gives `JobRecord`, the one that runs next first, in pages.

    Jobs that are deleted through this object while it is looked through disturb nothing. When workers take
    jobs meanwhile, a job may come twice or be missed: a queue has no order that would stand still.

    Args:
        name: of the queue; it need not exist.
        config: which server; default: this process's.
    """

    def __init__(self, name: str, config: Config | None = None) -> None:
        self.name = name
        self._config = config if config is not None else default_config()
        self._deleted = 0
        self._redis = self._config.shared_redis()

    @classmethod
    def all(cls, config: Config | None = None) -> list[Queue]:
        """Every known queue, by name."""
        config = config if config is not None else default_config()
        return [cls(name, config) for name in queues.names(config.shared_redis())]

    def __len__(self) -> int:
        return queues.size(self._redis, self.name)

    def __iter__(self) -> Iterator[JobRecord]:
        seen, deleted, size = 0, self._deleted, len(self)
        while True:
            # What is gone was in front of what comes next: taken by workers, or deleted by whoever looks.
            gone = max(self._deleted - deleted, size - len(self))
            page = queues.page(self._redis, self.name, max(0, seen - gone), _PAGE)
            if not page:
                return
            yield from map(JobRecord, page)
            seen += len(page)

    @property
    def latency_seconds(self) -> float:
        """How long the next job has waited; 0 for an empty queue."""
        oldest = queues.page(self._redis, self.name, 0, 1)
        enqueued_at = JobRecord(oldest[0]).enqueued_at if oldest else None
        return 0.0 if enqueued_at is None else max(0.0, self._config.clock.now() - enqueued_at)

    @property
    def paused(self) -> bool:
        return self.name in queues.paused(self._redis)

    def pause(self) -> None:
        """Have no worker take jobs from here; jobs that run already go on."""
        queues.pause(self._redis, self.name)

    def unpause(self) -> None:
        queues.unpause(self._redis, self.name)

    def find_job(self, jid: str) -> JobRecord | None:
        """The job with this id; looks through the whole queue."""
        return next((record for record in self if record.jid == jid), None)

    def delete(self, record: JobRecord) -> bool:
        """Remove one job. False when it has left the queue meanwhile."""
        deleted = queues.delete_job(self._redis, self.name, record.raw)
        if deleted:
            self._deleted += 1
            self._config.events.emit("job_removed", JobRemoved(record.raw, f"queue:{self.name}", "delete"))
        return deleted

    def clear(self) -> int:
        """Delete the queue with all its jobs, and answer how many there were."""
        removed = queues.clear(self._redis, self.name)
        for raw in removed:
            self._config.events.emit("job_removed", JobRemoved(raw, f"queue:{self.name}", "clear"))
        return len(removed)
