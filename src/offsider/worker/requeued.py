"""Logs requeued jobs, one line each, so that a search for a jid finds them."""

from __future__ import annotations

import logging

from offsider.core.normalize import normalize
from offsider.core.payload import decode_or_none
from offsider.logs.structured import about_raw

logger = logging.getLogger("offsider")

#: Maximum lines per incident; the caller logs the total in any case.
MAX_LINES = 1_000


class RequeueLog:
    """Logs the requeued jobs of one incident.

    Args:
        reason: why the jobs are requeued.
        level: log level of the lines.
    """

    def __init__(self, reason: str, level: int = logging.WARNING) -> None:
        self._reason = reason
        self._level = level
        self.count = 0

    def add(self, raw: bytes, queue: str) -> None:
        """Log a requeued job."""
        self.count += 1
        if self.count <= MAX_LINES:
            extra = {"fields": about_raw(raw, queue)}
            logger.log(self._level, "requeued %s to queue %s: %s", _name(raw), queue, self._reason, extra=extra)
        elif self.count == MAX_LINES + 1:
            logger.log(self._level, "requeued more jobs, not logged individually: %s", self._reason)


def _name(raw: bytes) -> str:
    payload = decode_or_none(raw)
    return "malformed payload" if payload is None else f"{payload['class']} JID-{normalize(payload).get('jid', '')}"
