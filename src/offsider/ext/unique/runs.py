"""The running side: a lock is freed when its job begins or when it is done with, and by nobody but its job.

=============================  ==========================================================
what happens to the job        its lock
=============================  ==========================================================
it begins to run               freed if so wanted (``start``, ``until_executing``)
it succeeds, or is skipped     freed
it fails and will be retried   kept
it is rescheduled or cut short kept
it dies, or is discarded       freed
it is deleted or killed        freed, also by the pages, the command line or a purge
it is a poison pill            freed
=============================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import MalformedPayload, RedisFailure
from offsider.core.payload import decode
from offsider.ext.unique import rules, store
from offsider.ext.unique.guard import KEY
from offsider.ext.unique.releases import Release, Releases, release_of
from offsider.wiring.context import current_capsule

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.wiring.events import ExecutionFinished, JobRemoved

_DONE = frozenset({"succeeded", "skipped"})
_KEY_BYTES = f'"{KEY}"'.encode()


class Runs:
    """Server middleware, and a listener to what becomes of jobs."""

    def __init__(self, config: Config, releases: Releases) -> None:
        self._config = config
        self._releases = releases

    def install(self) -> None:
        # Outermost: whatever sends the job elsewhere, it has begun before. Innermost: it does begin now.
        self._config.server_middleware.prepend(self.begin)
        self._config.server_middleware.add(self.start)
        self._config.on("execution_finished", self._finished)
        self._config.on("job_removed", self._removed)
        self._config.death_handlers.append(self._died)

    def begin(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        """Server middleware: the reaper shall know that the job may be elsewhere soon."""
        release = self._to_release(job)
        if release is not None:
            with self._reporting(job):
                store.begin(self._config.shared_redis(), release.lock, release.jid)
        return call_next(job)

    def start(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        """Server middleware: the job starts, and its lock may be one that ends with that."""
        release = self._to_release(job)
        if release is not None and _at_start(cast("Mapping[str, Any]", job.payload)):
            with self._reporting(job):
                store.release(self._config.shared_redis(), release.lock, release.jid)
        return call_next(job)

    @contextmanager
    def _reporting(self, job: JobContext) -> Generator[None]:
        """A job runs although its lock cannot be reached; it is freed at the end at the latest."""
        try:
            yield
        except RedisFailure as error:
            self._config.handle_error(error, {"context": "the lock of a unique job", "job": job.payload})

    def _finished(self, news: ExecutionFinished) -> None:
        if news.outcome in _DONE:
            payload = cast("Mapping[str, Any]", news.job.payload)
            self._releases.add(release_of(payload, self._config.server, succeeded=True))

    def _died(self, payload: JobPayload, _error: BaseException | None) -> None:
        self._releases.add(release_of(cast("Mapping[str, Any]", payload), self._config.server))

    def _removed(self, news: JobRemoved) -> None:
        if _KEY_BYTES not in news.raw:  # most jobs; a queue of a million may be cleared
            return
        try:
            payload = decode(news.raw)
        except MalformedPayload:
            return
        self._releases.add(release_of(cast("Mapping[str, Any]", payload), news.server))

    def _to_release(self, job: JobContext) -> Release | None:
        """What frees the lock of a run; None without a lock, and for a run without a server: inline, in a test."""
        if current_capsule() is None:
            return None
        return release_of(cast("Mapping[str, Any]", job.payload), self._config.server)


def _at_start(payload: Mapping[str, Any]) -> bool:
    try:
        rule = rules.rule_of(payload, 1.0)
    except ValueError:  # written by somebody else
        return False
    return rule is not None and rule.at_start
