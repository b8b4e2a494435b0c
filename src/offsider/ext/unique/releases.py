"""Free the locks of finished jobs, and run a job once more whose duplicates were dropped.

1. The script that writes the outcome of a run frees the lock (an effect).
2. A job that is killed, deleted or a poison pill has no outcome of a run; a separate request frees its lock.

Only the job that holds the lock frees it. The reaper finds abandoned locks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.core.outcome import Skipped, Succeeded
from offsider.core.payload import JobPayload, new_jid, stamp
from offsider.ext.unique import rules, store
from offsider.ext.unique.guard import AGAIN, KEY
from offsider.jobs import registry
from offsider.logs.setup import write_info
from offsider.logs.structured import about_payload
from offsider.runtime.middleware import Push

if TYPE_CHECKING:
    from offsider.core.outcome import Outcome
    from offsider.runtime.context import JobContext
    from offsider.storage.effects import Effect

OUTAGE_SECONDS = 1.0
#: Payload fields that belong to the finished run, not to the job.
_OF_THE_RUN = frozenset(
    {
        "jid", "at", "created_at", "enqueued_at", "retry_count", "failed_at", "retried_at", "discarded_at",
        "error_class", "error_message", "error_backtrace", "interrupted_count", "rescheduled_count", "overrated",
        KEY,
    }
)  # fmt: skip


def held_by(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the name of a job's lock and its jid; None for a job without a lock."""
    lock, jid = payload.get(KEY), payload.get("jid")
    return (lock, jid) if isinstance(lock, str) and isinstance(jid, str) else None


def _may_run_again(payload: Mapping[str, Any]) -> bool:
    """Whether the job may run once more. Only once: a job that is pushed constantly would never finish."""
    options = payload.get(rules.DEDUPLICATE)
    wanted = isinstance(options, Mapping) and cast("Mapping[str, Any]", options).get("if_deduplicated")
    return wanted == rules.RESCHEDULE_ONCE and not payload.get(AGAIN)


class Releases:
    """Free the locks of jobs of one server."""

    def __init__(self, here: Installation) -> None:
        self._here = here

    def effect(self, job: JobContext, lock: str, jid: str) -> Effect:
        """Return the effect that frees the lock of a running job when it ends for good."""
        again = _may_run_again(cast("Mapping[str, Any]", job.payload))
        done = partial(self._done, job, lock, jid) if again else None
        return store.releasing(self._here.redis.keys, lock, jid, done=done)

    def free(self, payload: Mapping[str, Any], server: str) -> None:
        """Free the lock of a job of ``server`` that ended without an outcome of a run."""
        held = held_by(payload)
        if held is not None:
            try:
                store.release(self._here.for_server(server).redis, *held)
            except RedisFailure as error:
                self._here.config.handle_error(error, {"context": "releasing the lock of a unique job"})

    def _done(self, job: JobContext, lock: str, jid: str, reply: int | None, outcome: Outcome) -> None:
        """Run a job once more if duplicates were dropped. A lost reply may have said so, so it is checked again."""
        if reply not in (store.RUN_AGAIN, None) or not isinstance(outcome, (Succeeded, Skipped)):
            return  # the lock of a dead job is freed like any other
        reported = False
        while True:
            try:
                self._run_again(job, lock, jid)
            except RedisUnavailable as error:
                if not reported:
                    self._here.config.handle_error(error, {"context": "running a unique job once more"})
                    reported = True
                if job.stopping:
                    return
                time.sleep(OUTAGE_SECONDS)
            else:
                return

    def _run_again(self, job: JobContext, lock: str, jid: str) -> None:
        redis = self._here.redis
        if store.release(redis, lock, jid, may_run_again=True) != store.RUN_AGAIN:
            return
        try:
            self._push_again(cast("Mapping[str, Any]", job.payload))
        except RedisUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # raised by client middleware; the lock must still be freed
            self._here.config.handle_error(error, {"context": "running a unique job once more"})
        # The new job has the lock. If middleware canceled its push, free the lock.
        store.release(redis, lock, jid)

    def _push_again(self, job: Mapping[str, Any]) -> None:
        here = self._here
        payload = {key: value for key, value in job.items() if key not in _OF_THE_RUN}
        now = stamp(here.config.clock.now(), here.settings.wire_version)
        payload |= {"jid": new_jid(), "created_at": now, AGAIN: job["jid"]}
        push = Push(payload=cast(JobPayload, payload), job=registry.peek(job["class"]))
        jid = Client(here).store(push)
        if jid is not None:
            message = f"{job['class']} JID-{jid}: pushed again, because duplicates of {job['jid']} were dropped"
            write_info(message, {"job_status": "rescheduled", **about_payload(payload), AGAIN: job["jid"]})
