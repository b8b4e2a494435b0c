"""A list of an extension where jobs lie, from the outside: it has the form of a queue, and is looked through as one."""

from __future__ import annotations

from offsider.inspector.chunk import Chunk
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.pace import steps
from offsider.storage import places, queue_walk, queues
from offsider.storage.queue_walk import Place
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


class ParkedList:
    """Jobs that an extension keeps from running for now, such as those that are over the limit of their class.

    Args:
        key: of the list.
        config: which server; default: this process's.
    """

    def __init__(self, key: str, config: Config | None = None) -> None:
        self.key = key
        self._redis = (config if config is not None else default_config()).shared_redis()

    @classmethod
    def keys(cls, config: Config | None = None) -> list[str]:
        """Those of all such lists that have jobs, sorted."""
        return [*places.lengths((config if config is not None else default_config()).shared_redis())]

    def __len__(self) -> int:
        return places.lengths(self._redis).get(self.key, 0)

    def page(self, start: int, count: int) -> list[JobRecord]:
        """Some jobs from the next one on; ``start`` counts from 0."""
        raws = queues.page_of_list(self._redis, self.key, start, count)
        return [JobRecord(raw, position=position) for position, raw in enumerate(raws, start)]

    def scan(
        self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None
    ) -> Chunk[JobRecord]:
        """Look for jobs for about as long as is given, and answer what was found and where to go on; as of `Queue`."""
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
