"""Release the lock of a job when the job starts or ends, and run a job once more whose duplicates were dropped.

=============================  ==========================================================
event of the job               its lock
=============================  ==========================================================
starts                         released with ``start`` or ``until_executing``
succeeds, or is skipped        released
fails and will be retried      kept
rescheduled or interrupted     kept
dies, or is discarded          released
deleted or killed              released, also by the web UI, the command line or a purge
poison pill                    released
=============================  ==========================================================

1. The script that writes the outcome of a run releases the lock (an effect).
2. So does the script that removes a job that has no outcome of a run: deleted, killed, a poison pill.
3. Only the job that holds the lock releases it. A lock without a job expires.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.compression import decode_plain
from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.core.outcome import Skipped, Succeeded
from offsider.core.payload import JobPayload, decode_or_none, new_jid, stamp
from offsider.ext.unique import locks, rules
from offsider.ext.unique.guard import KEY, RESCHEDULED_ONCE
from offsider.jobs import registry
from offsider.logs.setup import write_info
from offsider.logs.structured import about_payload
from offsider.runtime.middleware import Middleware, Push
from offsider.storage.effects import Effect

if TYPE_CHECKING:
    from offsider.core.outcome import Destination, Outcome
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import JobRemoved
    from offsider.storage.scripts import Argument

OUTAGE_SECONDS = 1.0
_KEY_BYTES = f'"{KEY}"'.encode()
#: Payload fields that belong to the finished run, not to the job.
_OF_THE_RUN = frozenset(
    {
        "jid", "at", "created_at", "enqueued_at", "retry_count", "failed_at", "retried_at", "discarded_at",
        "error_class", "error_message", "error_backtrace", "error_frame", "interrupted_count", "rescheduled_count",
        "overrated", KEY,
    }
)  # fmt: skip


def held_by(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the name of a job's lock and its jid; None for a job without a lock."""
    lock, jid = payload.get(KEY), payload.get("jid")
    return (lock, jid) if isinstance(lock, str) and isinstance(jid, str) else None


class Releases:
    """Release the locks of jobs of one server."""

    def __init__(self, server: Installation) -> None:
        self._server = server

    def install(self) -> None:
        config = self._server.config
        config.admissions.prepend(self.begin)  # whatever ends the run
        config.server_middleware.add(self.start)  # innermost: the job runs next
        config.removal_effects.append(self.removing)

    def begin(self, job: JobContext) -> Middleware:
        """Release the lock with the outcome."""
        held = self._held(job)
        if held is not None:
            job.effects += (self.effect(job, *held),)
        yield

    def start(self, job: JobContext) -> Middleware:
        """Release the lock at the start of the job, if its rule says so."""
        held = self._held(job)
        if held is not None and _at_start(cast("Mapping[str, Any]", job.payload)):
            try:
                locks.release(self._server.redis, *held)
            except RedisFailure as error:  # the outcome releases it at the latest
                # Not `job.payload`, which is decrypted here.
                context = {"context": "releasing the lock of a unique job", "job": decode_plain(job.raw)}
                self._server.config.handle_error(error, context)
        yield

    def effect(self, job: JobContext, lock: str, jid: str) -> Effect:
        """Return the effect that releases the lock of a running job when it ends for good."""
        payload = cast("Mapping[str, Any]", job.payload)
        # Only once: a job that is pushed constantly would never finish.
        again = payload.get(rules.RESCHEDULE_ONCE) is True and not payload.get(RESCHEDULED_ONCE)

        def arguments(outcome: Outcome, goes: Destination) -> Sequence[Argument] | None:
            keeps = again and isinstance(outcome, (Succeeded, Skipped))
            return (jid, int(keeps)) if goes in ("gone", "dead") else None

        done = partial(self._done, job, lock, jid) if again else None
        return Effect(locks.RELEASE, locks.release_keys(self._server.redis.keys, lock), arguments, done)

    def removing(self, news: JobRemoved) -> Sequence[Effect]:
        """Release the lock of a job in the script that removes it."""
        # Most jobs have none: clearing a queue of a million stays fast.
        payload = decode_or_none(news.raw) if _KEY_BYTES in news.raw else None
        held = None if payload is None else held_by(cast("Mapping[str, Any]", payload))
        if held is None:
            return ()
        lock, jid = held
        keys = self._server.for_server(news.server).redis.keys
        return (Effect(locks.RELEASE, locks.release_keys(keys, lock), (jid, 0)),)

    def _held(self, job: JobContext) -> tuple[str, str] | None:
        """Return the lock and the jid of a run; None without a lock, and for inline runs without a server."""
        return held_by(cast("Mapping[str, Any]", job.payload)) if job.process else None

    def _done(self, job: JobContext, lock: str, jid: str, reply: int | None, outcome: Outcome) -> None:
        """Run a job once more if duplicates were dropped. A lost reply may have said so, so it is checked again."""
        if reply not in (locks.RUN_AGAIN, None) or not isinstance(outcome, (Succeeded, Skipped)):
            return  # the lock of a dead job is freed like any other
        reported, redis = False, self._server.redis
        while True:
            try:
                if locks.release(redis, lock, jid, may_run_again=True) == locks.RUN_AGAIN:
                    self._push_again(cast("Mapping[str, Any]", job.payload))
                    # The new job has the lock. If middleware canceled its push, free the lock.
                    locks.release(redis, lock, jid)
                return
            except RedisUnavailable as error:
                if not reported:
                    self._report(error)
                reported = True
                if job.stopping:
                    return
                time.sleep(OUTAGE_SECONDS)

    def _push_again(self, job: Mapping[str, Any]) -> None:
        server = self._server
        payload = {key: value for key, value in job.items() if key not in _OF_THE_RUN}
        now = stamp(server.config.clock.now(), server.settings.wire_version)
        payload |= {"jid": new_jid(), "created_at": now, RESCHEDULED_ONCE: job["jid"]}
        push = Push(payload=cast(JobPayload, payload), job=registry.peek(job["class"]))
        try:
            jid = Client(server).store(push)
        except RedisUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # raised by client middleware; the lock must still be freed
            self._report(error)
            return
        if jid:
            message = f"{job['class']} JID-{jid}: pushed again, because duplicates of {job['jid']} were dropped"
            write_info(message, {"job_status": "rescheduled", **about_payload(payload), RESCHEDULED_ONCE: job["jid"]})

    def _report(self, error: Exception) -> None:
        self._server.config.handle_error(error, {"context": "running a unique job once more"})


def _at_start(payload: Mapping[str, Any]) -> bool:
    try:
        rule = rules.rule_of(payload, 1.0)
    except ValueError:  # written by another program
        return False
    return rule is not None and rule.at_start
