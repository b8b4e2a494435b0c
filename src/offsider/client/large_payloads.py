"""What becomes of large payloads at their first push: compressed, told of, or refused. No I/O.

1. with ``large_payloads = "compress"`` the arguments of a job that is declared in Python are compressed
2. what is still over ``payload_limit_bytes`` is refused, unless its job may be large
3. what was large is told: the event ``large_payload``, and a warning when it is stored so

Nobody asks here about a payload of at most `core.compression.SMALL_BYTES`, as most are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from offsider.core.compression import compress
from offsider.core.errors import PayloadTooLarge
from offsider.core.payload import JobPayload, encode
from offsider.wiring.events import LargePayload

if TYPE_CHECKING:
    from offsider.client.prepared import DeclaredJob
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")


class LargePayloads:
    """Looks at the payloads of one configuration's pushes."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def looked_at(self, payload: JobPayload, raw: bytes, job: object | None) -> bytes:
        """The bytes to store.

        Args:
            payload: the job, which stays as it is.
            raw: its bytes.
            job: what declares it; None for one that lives elsewhere, and is never compressed.

        Raises:
            PayloadTooLarge: there are more bytes than may be stored.
        """
        declared = cast("DeclaredJob | None", job)
        stored = self._packed(payload, raw, declared)
        may_be_large = declared is not None and declared.big_payload
        if not may_be_large:
            self._check_limit(payload, stored)
        if self._config.client.large_payloads != "off":
            self._tell(payload, len(raw), len(stored), expected=may_be_large)
        return stored

    def check(self, payload: JobPayload, job: object | None) -> None:
        """Raise PayloadTooLarge for what could not be stored later; whatever is not JSON raises as `encode`."""
        declared = cast("DeclaredJob | None", job)
        if self._config.client.payload_limit_bytes and not (declared is not None and declared.big_payload):
            self._check_limit(payload, self._packed(payload, encode(payload), declared))

    def _packed(self, payload: JobPayload, raw: bytes, job: DeclaredJob | None) -> bytes:
        client = self._config.client
        if client.large_payloads != "compress" or len(raw) < client.compress_bytes:
            return raw
        if job is None or job.shared_with_ruby:  # a worker in Ruby could not read it
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
                "%s: the arguments of job %s make it %d bytes large; pass an id and load the data in the job",
                name,
                jid,
                stored_bytes,
                extra={"fields": {"class": name, "jid": jid, "job_size_bytes": stored_bytes}},
            )
        self._config.events.emit("large_payload", LargePayload(name, jid, queue, size_bytes, stored_bytes))
