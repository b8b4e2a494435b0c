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
2. A job that is killed, deleted or a poison pill has no outcome of a run; a separate request releases its lock. A
   failed request is repeated with the next one, and every few seconds in a worker.
3. Only the job that holds the lock releases it. A lock without a job expires.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import MalformedPayload, RedisFailure, RedisUnavailable
from offsider.core.outcome import Skipped, Succeeded
from offsider.core.payload import JobPayload, decode, new_jid, stamp
from offsider.ext.unique import rules, store
from offsider.ext.unique.guard import AGAIN, KEY
from offsider.jobs import registry
from offsider.logs.setup import write_info
from offsider.logs.structured import about_payload
from offsider.runtime.middleware import Middleware, Push
from offsider.runtime.service import Loop

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.outcome import Outcome
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import JobRemoved
    from offsider.storage.effects import Effect

OUTAGE_SECONDS = 1.0
#: Interval and maximum number of repeated releases.
RETRY_SECONDS = 5.0
MAX_FAILED = 10_000
_KEY_BYTES = f'"{KEY}"'.encode()
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


class Releases:
    """Release the locks of jobs of one server: server middleware, and a listener for jobs that die or are removed."""

    def __init__(self, server: Installation) -> None:
        self._server = server
        self._failed: deque[tuple[str, str, str]] = deque(maxlen=MAX_FAILED)

    def install(self) -> None:
        config = self._server.config
        # `begin` is outermost: it runs before any middleware moves the job. `start` is innermost: the job runs next.
        config.server_middleware.prepend(self.begin)
        config.server_middleware.add(self.start)
        config.on("job_removed", self._removed)
        config.death_handlers.append(self._died)
        config.add_service(self._make_service)

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
                store.release(self._server.redis, *held)
            except RedisFailure as error:  # the outcome releases it at the latest
                self._report(error, job.payload)
        yield

    def effect(self, job: JobContext, lock: str, jid: str) -> Effect:
        """Return the effect that releases the lock of a running job when it ends for good."""
        payload = cast("Mapping[str, Any]", job.payload)
        # Only once: a job that is pushed constantly would never finish.
        again = payload.get(rules.RESCHEDULE_ONCE) is True and not payload.get(AGAIN)
        done = partial(self._done, job, lock, jid) if again else None
        return store.releasing(self._server.redis.keys, lock, jid, done=done)

    def free(self, payload: Mapping[str, Any], server: str) -> None:
        """Release the lock of a job of ``server`` that ended without an outcome of a run."""
        held = held_by(payload)
        if held is not None:
            self._failed.append((server, *held))
            self.retry()

    def retry(self) -> float:
        """Repeat failed releases; return the seconds until the next time."""
        while True:
            try:
                server, lock, jid = failed = self._failed.popleft()
            except IndexError:
                return RETRY_SECONDS
            try:
                store.release(self._server.for_server(server).redis, lock, jid)
            except RedisFailure as error:
                self._failed.append(failed)
                self._report(error, {"jid": jid})
                return RETRY_SECONDS

    def _make_service(self, config: Config) -> Loop:
        return Loop("offsider-unique-releases", self.retry, on_error=config.handle_error)

    def _report(self, error: RedisFailure, job: Mapping[str, Any]) -> None:
        self._server.config.handle_error(error, {"context": "releasing the lock of a unique job", "job": job})

    def _died(self, payload: JobPayload, _error: BaseException | None) -> None:
        """Release the lock of a job that died: needed for poison pills, since an outcome has released it otherwise."""
        self.free(cast("Mapping[str, Any]", payload), self._server.name)

    def _removed(self, news: JobRemoved) -> None:
        if _KEY_BYTES not in news.raw:  # most jobs; keeps clearing a queue of a million fast
            return
        try:
            payload = decode(news.raw)
        except MalformedPayload:
            return
        self.free(cast("Mapping[str, Any]", payload), news.server)

    def _held(self, job: JobContext) -> tuple[str, str] | None:
        """Return the lock and the jid of a run; None without a lock, and for inline runs without a server."""
        return held_by(cast("Mapping[str, Any]", job.payload)) if job.process else None

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
                    self._server.config.handle_error(error, {"context": "running a unique job once more"})
                    reported = True
                if job.stopping:
                    return
                time.sleep(OUTAGE_SECONDS)
            else:
                return

    def _run_again(self, job: JobContext, lock: str, jid: str) -> None:
        redis = self._server.redis
        if store.release(redis, lock, jid, may_run_again=True) != store.RUN_AGAIN:
            return
        try:
            self._push_again(cast("Mapping[str, Any]", job.payload))
        except RedisUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # raised by client middleware; the lock must still be freed
            self._server.config.handle_error(error, {"context": "running a unique job once more"})
        # The new job has the lock. If middleware canceled its push, free the lock.
        store.release(redis, lock, jid)

    def _push_again(self, job: Mapping[str, Any]) -> None:
        here = self._server
        payload = {key: value for key, value in job.items() if key not in _OF_THE_RUN}
        now = stamp(here.config.clock.now(), here.settings.wire_version)
        payload |= {"jid": new_jid(), "created_at": now, AGAIN: job["jid"]}
        push = Push(payload=cast(JobPayload, payload), job=registry.peek(job["class"]))
        jid = Client(here).store(push)
        if jid:
            message = f"{job['class']} JID-{jid}: pushed again, because duplicates of {job['jid']} were dropped"
            write_info(message, {"job_status": "rescheduled", **about_payload(payload), AGAIN: job["jid"]})


def _at_start(payload: Mapping[str, Any]) -> bool:
    try:
        rule = rules.rule_of(payload, 1.0)
    except ValueError:  # written by another program
        return False
    return rule is not None and rule.at_start
