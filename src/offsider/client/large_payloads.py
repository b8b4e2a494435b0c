"""Compresses, reports or rejects large payloads at their first push. No I/O.

1. With ``large_payloads = "compress"``, arguments of jobs declared in Python are compressed.
2. A payload that still exceeds ``payload_limit_bytes`` is rejected, unless its job has ``big_payload``.
3. A large payload emits the event ``large_payload``; if it is stored uncompressed, a warning is logged.

Callers skip this for payloads of up to `core.compression.SMALL_BYTES`, as most are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from offsider.core.compression import compress
from offsider.core.errors import PayloadTooLarge
from offsider.core.payload import JobPayload, encode
from offsider.logs.structured import about_payload
from offsider.runtime.events import LargePayload

if TYPE_CHECKING:
    from offsider.client.prepared import DeclaredJob
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

#: Minimum size of the payloads that are compressed: below, the server saves little for the CPU time.
COMPRESS_BYTES = 100_000


class LargePayloads:
    """Checks the payloads that one configuration pushes."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def looked_at(self, payload: JobPayload, raw: bytes, job: object | None) -> bytes:
        """Return the bytes to store.

        Args:
            payload: the job, which is not modified.
            raw: its bytes.
            job: its declaration; None for a job of another program, which is never compressed.

        Raises:
            PayloadTooLarge: the payload exceeds the limit.
        """
        declared = cast("DeclaredJob | None", job)
        stored = self._packed(payload, raw, declared)
        may_be_large = declared is not None and declared.big_payload
        if not may_be_large:
            self._check_limit(payload, stored)
        if self._config.client.large_payloads != "off":
            self._tell(payload, len(raw), len(stored), expected=may_be_large)
        return stored

    def check(self, payload: JobPayload, raw: bytes, job: object | None) -> None:
        """Raise PayloadTooLarge if `looked_at` would raise it for the same arguments."""
        declared = cast("DeclaredJob | None", job)
        if self._config.client.payload_limit_bytes and not (declared is not None and declared.big_payload):
            self._check_limit(payload, self._packed(payload, raw, declared))

    def _packed(self, payload: JobPayload, raw: bytes, job: DeclaredJob | None) -> bytes:
        client = self._config.client
        if client.large_payloads != "compress" or len(raw) < COMPRESS_BYTES:
            return raw
        if job is None or job.shared_with_ruby:  # a Ruby worker could not read it
            return raw
        packed = encode(compress(payload))
        return packed if len(packed) < len(raw) else raw

    def _check_limit(self, payload: JobPayload, stored: bytes) -> None:
        limit = self._config.client.payload_limit_bytes
        if limit and len(stored) > limit:
            raise PayloadTooLarge(payload["class"], len(stored), limit)

    def _tell(self, payload: JobPayload, size_bytes: int, stored_bytes: int, *, expected: bool) -> None:
        large = self._config.client.large_payload_bytes
        if size_bytes <= large and size_bytes == stored_bytes:
            return
        name, jid, queue = payload["class"], payload.get("jid", ""), payload.get("queue", "")
        if stored_bytes > large and not expected:
            logger.warning(
                "%s: the payload of job %s has %d bytes; pass an id and load the data in the job",
                name,
                jid,
                stored_bytes,
                extra={"fields": {**about_payload(payload), "job_size_bytes": stored_bytes}},
            )
        self._config.events.emit("large_payload", LargePayload(name, jid, queue, size_bytes, stored_bytes))
