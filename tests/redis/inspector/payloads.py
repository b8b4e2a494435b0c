"""One failed job as each Sidekiq stores it in its retry set: created, enqueued, failed, failed again."""

from __future__ import annotations

from typing import Any

from offsider.core.compression import compress_backtrace
from offsider.inspector import Chunk, JobFilter

LINES = ["/app/hard_job.rb:7:in `perform'", "/gems/sidekiq/processor.rb:220:in `execute_job'"]
JID = "f9b8e2a1c3d4e5f60718293a"

_STORED = (
    '{"retry":25,"queue":"low","args":[1,"é"],"class":"HardJob","jid":"%s","created_at":%s,"enqueued_at":%s,'
    '"error_message":"boom","error_class":"RuntimeError","failed_at":%s,"retry_count":2,"retried_at":%s,'
    '"error_backtrace":"%s"}'
)


def failed_job(version: int) -> bytes:
    """The member that Sidekiq 6, 7 or 8 writes."""
    times = (1795216780652, 1795216781652, 1795216782652, 1795216790652)
    shown = times if version == 8 else [time / 1000 for time in times]
    return (_STORED % (JID, *shown, compress_backtrace(LINES, version).replace("\n", "\\n"))).encode()


def job(number: int) -> bytes:
    """A small job that no other is equal to."""
    return b'{"class":"HardJob","args":[%d],"queue":"default","jid":"%024x"}' % (number, number)


def through(place: Any, wanted: JobFilter, **limits: Any) -> list[Chunk[Any]]:
    """All chunks of a scan."""
    chunks = [place.scan(wanted, **limits)]
    while chunks[-1].cursor:
        chunks.append(place.scan(wanted, chunks[-1].cursor, **limits))
        assert len(chunks) < 1_000
    return chunks
