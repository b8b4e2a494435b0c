"""Buries a poison pill: a job that takes its process with it each time it runs.

1. Note in its payload what happened: ``offsider.PoisonPill``, how many processes died, and which.
2. Move it from its dead owner's list into the dead set, whatever its option ``dead`` says: a pill that is
   thrown away would leave no trace of why processes died.
3. Who wins that move tells: a line in the log, the event ``job_poisoned``, the death handlers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.compression import readable
from offsider.core.errors import MalformedPayload, PoisonPill
from offsider.core.payload import decode, encode, new_jid, stamp
from offsider.storage import strikes
from offsider.storage.working import DeadSetLimits
from offsider.wiring.events import JobPoisoned
from offsider.worker.retrier import message_of
from offsider.worker.unit_of_work import interrupted

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.storage.redis import Redis
    from offsider.storage.working import Entry
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

ERROR_CLASS = "offsider.PoisonPill"


class Burial:
    """Buries for the sweeper of one worker, which knows the application's callbacks."""

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._limits = DeadSetLimits(config.worker.dead_max_jobs, config.worker.dead_timeout_seconds)

    def bury(self, entry: Entry, identities: Sequence[str]) -> bool:
        """Bury the job of ``entry``, which ``identities`` died with; False when somebody else was quicker.

        Raises:
            RedisFailure: the job is still where it was.
        """
        error = PoisonPill(identities)
        payload = self._noted(entry.raw, error)
        stored = entry.raw if payload is None else encode(payload)
        if not strikes.bury(self._redis, entry, stored, self._limits):
            return False
        jid = payload.get("jid") if payload is not None else None
        logger.error("job %s of queue %s is a poison pill and was buried: %s", jid, entry.queue, error)
        self._config.events.emit("job_poisoned", JobPoisoned(stored, entry.queue, tuple(identities)))
        if payload is not None:
            self._tell_death_handlers(readable(payload), error)
        return True

    def _noted(self, raw: bytes, error: PoisonPill) -> JobPayload | None:
        try:
            payload = decode(interrupted(raw))
        except MalformedPayload:
            return None
        now = stamp(self._config.clock.now(), self._config.redis.wire_version)
        payload.setdefault("jid", new_jid())
        payload["error_class"] = ERROR_CLASS
        payload["error_message"] = message_of(error)
        payload.pop("error_backtrace", None)  # of an earlier failure, which is not what it died of
        payload.setdefault("failed_at", now)
        return payload

    def _tell_death_handlers(self, payload: JobPayload, error: PoisonPill) -> None:
        for handler in self._config.death_handlers:
            try:
                handler(payload, error)
            except BaseException as own:  # noqa: BLE001 - a broken handler must not keep the others from being told
                self._config.handle_error(own, {"context": "a death handler", "job": payload})
