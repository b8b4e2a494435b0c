"""Server middleware: free the lock of a job when the job starts or ends. Only its own job frees a lock.

=============================  ==========================================================
event of the job               its lock
=============================  ==========================================================
starts                         freed with ``start`` or ``until_executing``
succeeds, or is skipped        freed
fails and will be retried      kept
rescheduled or interrupted     kept
dies, or is discarded          freed
deleted or killed              freed, also by the web UI, the command line or a purge
poison pill                    freed
=============================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from offsider.config.installation import Installation
from offsider.core.errors import MalformedPayload, RedisFailure
from offsider.core.payload import decode
from offsider.ext.unique import rules, store
from offsider.ext.unique.guard import KEY
from offsider.ext.unique.releases import Releases, held_by

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import JobRemoved

_KEY_BYTES = f'"{KEY}"'.encode()


class Runs:
    """Server middleware, and a listener for jobs that die or are removed."""

    def __init__(self, here: Installation, releases: Releases) -> None:
        self._here = here
        self._releases = releases

    def install(self) -> None:
        # `begin` is outermost: it runs before any middleware moves the job. `start` is innermost: the job runs next.
        self._here.config.server_middleware.prepend(self.begin)
        self._here.config.server_middleware.add(self.start)
        self._here.config.on("job_removed", self._removed)
        self._here.config.death_handlers.append(self._died)

    def begin(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        """Free the lock with the outcome, and mark it: the mark shows the reaper that the job may move soon."""
        held = self._held(job)
        if held is not None:
            job.effects += (self._releases.effect(job, *held),)
            with self._reporting(job):
                store.begin(self._here.redis, *held)
        return call_next(job)

    def start(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        """Free the lock at the start of the job, if its rule says so."""
        held = self._held(job)
        if held is not None and _at_start(cast("Mapping[str, Any]", job.payload)):
            with self._reporting(job):
                store.release(self._here.redis, *held)
        return call_next(job)

    @contextmanager
    def _reporting(self, job: JobContext) -> Generator[None]:
        """Report a Redis failure and run the job anyway; its lock is freed at the end at the latest."""
        try:
            yield
        except RedisFailure as error:
            self._here.config.handle_error(error, {"context": "updating the lock of a unique job", "job": job.payload})

    def _died(self, payload: JobPayload, _error: BaseException | None) -> None:
        """Free the lock of a job that died. Needed for poison pills; the outcome of a run has freed it otherwise."""
        self._releases.free(cast("Mapping[str, Any]", payload), self._here.server)

    def _removed(self, news: JobRemoved) -> None:
        if _KEY_BYTES not in news.raw:  # most jobs; keeps clearing a queue of a million fast
            return
        try:
            payload = decode(news.raw)
        except MalformedPayload:
            return
        self._releases.free(cast("Mapping[str, Any]", payload), news.server)

    def _held(self, job: JobContext) -> tuple[str, str] | None:
        """Return the lock and the jid of a run; None without a lock, and for inline runs without a server."""
        return held_by(cast("Mapping[str, Any]", job.payload)) if job.process else None


def _at_start(payload: Mapping[str, Any]) -> bool:
    try:
        rule = rules.rule_of(payload, 1.0)
    except ValueError:  # written by another program
        return False
    return rule is not None and rule.at_start
