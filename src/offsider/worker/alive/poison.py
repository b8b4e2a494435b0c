"""Moves poison pills to the dead set: jobs that kill their process each time they run.

``reclaim.py`` finds them, because a parent process, which must leave them in their lists, loads that module only.

1. Record the reason in the payload: ``offsider.PoisonPill``, with the number and the identities of dead processes.
2. Move it from its dead owner's list to the dead set, even if its option ``dead`` is False: without the job, an
   operator could not find out why processes died.
3. The same script runs the effects of extensions, so that a batch counts its member.
4. Only the process whose move succeeds logs an error, emits ``job_poisoned`` and calls the death handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.compression import readable
from offsider.core.error_text import message_of
from offsider.core.errors import MalformedPayload, PoisonPill
from offsider.core.malformed import listable
from offsider.core.normalize import normalize
from offsider.core.payload import decode, encode, interrupted, new_jid, stamp
from offsider.inspector import removal
from offsider.logs.structured import about_raw
from offsider.runtime.events import JobPoisoned, JobRemoved
from offsider.storage import strikes
from offsider.storage.effects import Together

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry

logger = logging.getLogger("offsider")

ERROR_CLASS = "offsider.PoisonPill"


class PoisonPills:
    """Buries poison pills for the sweeper of one worker; the worker has the application's callbacks."""

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._limits = config.worker.dead_set_limits

    def bury(self, entry: PrivateListEntry, identities: Sequence[str]) -> bool:
        """Bury the job of ``entry``, which killed ``identities``; False if another process was faster.

        Raises:
            RedisFailure: the job was not moved.
        """
        error = PoisonPill(identities)
        payload = self._noted(entry.raw, error)
        now = stamp(self._config.clock.now(), self._config.redis.wire_version)
        stored = listable(entry.raw, now) if payload is None else encode(payload)
        server = Installation.of(self._config)
        removed = JobRemoved(entry.raw, f"queue:{entry.queue}", "kill", server.name, error)
        redis = Together(self._redis, removal.effects_of(server, removed))
        if not strikes.bury(redis, entry, stored, self._limits):
            return False
        jid = payload.get("jid") if payload is not None else None
        logger.error(
            "job %s of queue %s is a poison pill and was moved to the dead set: %s",
            jid,
            entry.queue,
            error,
            extra={"fields": about_raw(stored, entry.queue)},
        )
        self._config.events.emit("job_poisoned", JobPoisoned(stored, entry.queue, tuple(identities)))
        if payload is not None:
            self._config.call_death_handlers(readable(payload), error)
        return True

    def _noted(self, raw: bytes, error: PoisonPill) -> JobPayload | None:
        try:
            payload = decode(interrupted(raw))
        except MalformedPayload:
            return None
        now = stamp(self._config.clock.now(), self._config.redis.wire_version)
        if not normalize(payload).get("jid"):
            payload["jid"] = new_jid()
        payload["error_class"] = ERROR_CLASS
        payload["error_message"] = message_of(error)
        payload.pop("error_backtrace", None)  # of an earlier, unrelated failure
        payload.setdefault("failed_at", now)
        return payload
