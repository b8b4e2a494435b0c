"""A list of held jobs of an extension. It has the structure of a queue and is scanned like one."""

from __future__ import annotations

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector.chunk import Chunk
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.time_budget import steps
from offsider.storage import extension_lists, queue_walk, queues
from offsider.storage.queue_walk import Place


class HeldList:
    """Jobs that an extension holds back for now, such as jobs over the concurrency limit of their class.

    Args:
        key: key of the list.
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, key: str, config: Config | Installation | None = None) -> None:
        self.key = key
        self._redis = Installation.of(config).redis

    @classmethod
    def keys(cls, config: Config | Installation | None = None) -> list[str]:
        """Return the keys of all such lists with jobs, sorted."""
        return [*extension_lists.lengths(Installation.of(config).redis)]

    def __len__(self) -> int:
        return extension_lists.lengths(self._redis).get(self.key, 0)

    def page(self, start: int, count: int) -> list[JobRecord]:
        """Return up to ``count`` jobs from position ``start`` (from 0), the next job first."""
        raws = queues.page_of_list(self._redis, self.key, start, count)
        return [JobRecord(raw, position=position) for position, raw in enumerate(raws, start)]

    def scan(
        self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None
    ) -> Chunk[JobRecord]:
        """Scan for jobs within a time budget; see `Queue.scan`."""
        place = Place.read(cursor)
        chunk: Chunk[JobRecord] = Chunk([], 0, len(self), "")
        for step in steps(budget_ms, most):
            start, raws = queue_walk.read_on_list(self._redis, self.key, place, step)
            if not raws:
                return chunk
            for seen, raw in enumerate(raws, 1):
                record = JobRecord(raw, position=start + seen - 1)
                chunk.scanned += 1
                if wanted.matches(record):
                    chunk.entries.append(record)
                if len(chunk.entries) == most:
                    chunk.cursor = place.after(start + seen, raws[:seen]).written
                    return chunk
            place = place.after(start + len(raws), raws)
        chunk.cursor = place.written
        return chunk
