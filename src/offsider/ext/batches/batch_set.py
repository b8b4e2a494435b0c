"""Read the batches of a server: in pages, or those with a tag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.batches import store
from offsider.ext.batches.status import Status, make_status, stored_tags
from offsider.inspector.scan import Chunk, scan


class BatchSet:
    """The batches of a server: first those with dead jobs, then unfinished, then finished ones.

    ::

        for status in BatchSet():
            print(status.bid, status.description, status.pending)
        for status in BatchSet().tagged("nightly"):
            print(status.bid, status.tags)

    In each group, the batch that expires last is the first. The statuses have no ``failed_jids`` and ``dead_jids``;
    `Batch.status` has them.

    Args:
        config: selects the server; default: the configuration of this process.

    Every method raises RedisFailure if the server is unreachable.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._redis = Installation.of(config).redis

    def __len__(self) -> int:
        """Return the number of batches that have not expired."""
        return store.count(self._redis)

    def __iter__(self) -> Iterator[Status]:
        """Yield the status of each batch, and read them in pages."""
        for bids in store.pages(self._redis):
            yield from self.read(bids)

    def page(self, start: int = 0, count: int = 100) -> list[Status]:
        """Return the statuses of up to ``count`` batches, without the first ``start`` ones."""
        return self.read(store.page(self._redis, start, count))

    def read(self, bids: Sequence[str]) -> list[Status]:
        """Return the statuses of batches, without those that do not exist or have expired."""
        found = zip(bids, store.sizes(self._redis, bids), strict=True) if bids else ()
        return [make_status(bid, fields, sizes) for bid, (fields, sizes) in found if fields]

    def tagged(self, tag: str) -> Iterator[Status]:
        """Yield all batches with a tag, in no order.

        This scans all batches, about 30,000 per second. Use `scan` for a time limit.
        """
        seen: set[str] = set()
        cursor = ""
        while True:
            chunk = self.scan(tag, cursor)
            for status in chunk.entries:
                if status.bid not in seen:
                    seen.add(status.bid)
                    yield status
            if chunk.complete:
                return
            cursor = chunk.cursor

    def scan(self, tag: str, cursor: str = "", budget_ms: float = 100, most: int | None = None) -> Chunk[Status]:
        """Scan for batches with a tag within a time budget, in no order; a batch may be returned twice.

        Args:
            tag: one of the tags of a batch, compared literally.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: approximate maximum number of matches.
        """

        def read(position: str, step: int) -> tuple[str, int, Iterable[Status]]:
            position, found = store.scan_tags(self._redis, position, step)
            return position, max(step, len(found)), self.read([bid for bid, tags in found if tag in stored_tags(tags)])

        return scan(read, len(self), cursor, budget_ms, most)
