"""Frees the locks of jobs that are done. In a worker a thread does it, so that no run waits for another round trip.

Only the lock that is still held by the job is freed. What cannot be written waits for the server, up to a number; what
is lost here, with its process, the reaper finds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from offsider.client import Client
from offsider.core.errors import RedisFailure
from offsider.core.payload import JobPayload, new_jid, stamp
from offsider.ext.unique import rules, store
from offsider.ext.unique.guard import AGAIN, KEY
from offsider.jobs import registry
from offsider.wiring.logs import write_info
from offsider.wiring.middleware import Push
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from offsider.wiring.config import Config

MOST_WAITING = 100_000
_IDLE_SECONDS = 60.0
_OUTAGE_SECONDS = 1.0
#: What a payload says of the run that is over, and not of the job.
_OF_THE_RUN = frozenset(
    {
        "jid", "at", "created_at", "enqueued_at", "retry_count", "failed_at", "retried_at", "discarded_at",
        "error_class", "error_message", "error_backtrace", "interrupted_count", KEY,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Release:
    """A lock to be freed.

    Attributes:
        lock, jid: its name, and the job that has held it.
        server: the name of the server that has both.
        rerun: the job, if it runs once more when duplicates of it were dropped.
    """

    lock: str
    jid: str
    server: str
    rerun: Mapping[str, Any] | None = None


def release_of(payload: Mapping[str, Any], server: str, *, succeeded: bool = False) -> Release | None:
    """What frees the lock of a job of ``server``; None for a job without one."""
    lock, jid = payload.get(KEY), payload.get("jid")
    if not isinstance(lock, str) or not isinstance(jid, str):
        return None
    return Release(lock, jid, server, payload if succeeded and _may_run_again(payload) else None)


def _may_run_again(payload: Mapping[str, Any]) -> bool:
    """Once only: else a job that is pushed all the time would never come to an end."""
    options = payload.get(rules.DEDUPLICATE)
    wanted = isinstance(options, Mapping) and cast("Mapping[str, Any]", options).get("if_deduplicated")
    return wanted == rules.RESCHEDULE_ONCE and not payload.get(AGAIN)


class Releases:
    """Frees locks for one configuration: in its thread while that lives, else at once."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._waiting: deque[Release] = deque(maxlen=MOST_WAITING)
        self._at_it = threading.Lock()
        self._loop: Loop | None = None

    def service(self, config: Config) -> ReleasingService:
        """The thread of a worker that begins now."""
        self._loop = Loop("offsider-unique-releases", self.tick, on_error=config.handle_error)
        return ReleasingService(self, self._loop)

    def add(self, release: Release | None) -> None:
        """Free a lock soon, or now where no worker runs."""
        if release is None:
            return
        self._waiting.append(release)
        if self._loop is not None and self._loop.alive:
            self._loop.wake()
        else:
            self.flush()

    def tick(self) -> float:
        """Free what waits; the seconds until the next try."""
        return _IDLE_SECONDS if self.flush() else _OUTAGE_SECONDS

    def flush(self) -> bool:
        """Free what waits. False when the server failed, and some of it still waits."""
        with self._at_it:
            while self._waiting:
                release = self._waiting.popleft()
                try:
                    self._free(release)
                except RedisFailure as error:
                    self._waiting.appendleft(release)
                    self._config.handle_error(error, {"context": "freeing the lock of a unique job"})
                    return False
                except Exception as error:  # noqa: BLE001  # client middleware of the application: the lock must not stay
                    self._config.handle_error(error, {"context": "running a unique job once more"})
                    self._waiting.appendleft(replace(release, rerun=None))
        return True

    def _free(self, release: Release) -> None:
        redis = self._config.redis_of(release.server)
        said = store.release(redis, release.lock, release.jid, may_run_again=release.rerun is not None)
        if said == store.RUN_AGAIN and release.rerun is not None:
            self._run_again(release.rerun, self._config.for_server(release.server))
            # The new job has the lock. If middleware has stopped that job, nobody shall have it.
            store.release(redis, release.lock, release.jid)

    def _run_again(self, job: Mapping[str, Any], config: Config) -> None:
        payload = {key: value for key, value in job.items() if key not in _OF_THE_RUN}
        now = stamp(config.clock.now(), config.redis.wire_version)
        payload |= {"jid": new_jid(), "created_at": now, AGAIN: job["jid"]}
        push = Push(payload=cast(JobPayload, payload), job=registry.peek(job["class"]))
        jid = Client(config).store(push)
        if jid is not None:
            message = f"{job['class']} JID-{jid}: runs once more for duplicates of {job['jid']}"
            write_info(message, {"job_status": "rescheduled", "class": job["class"], "jid": jid, AGAIN: job["jid"]})


class ReleasingService:
    """The thread, which leaves nothing behind that the server takes at the end."""

    def __init__(self, releases: Releases, loop: Loop) -> None:
        self._releases = releases
        self._loop = loop
        self.name = loop.name
        self.start = loop.start
        self.stop = loop.stop

    def join(self, timeout_seconds: float | None = None) -> bool:
        ended = self._loop.join(timeout_seconds)
        if ended:
            self._releases.flush()
        return ended

    def wait_for_tick(self, number: int, timeout_seconds: float) -> bool:
        return self._loop.wait_for_tick(number, timeout_seconds)
