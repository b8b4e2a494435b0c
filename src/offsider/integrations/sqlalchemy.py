"""For SQLAlchemy: server middleware that removes scoped sessions after each job.

::

    Session = scoped_session(sessionmaker(engine), scopefunc=scope)

    def configure(config: Config) -> None:
        config.server_middleware.add(RemoveSessions(Session))

The next job then begins with a new session, and the connection returns to the pool. SQLAlchemy is not imported here.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from inspect import iscoroutinefunction
from typing import Any

from offsider.core.errors import ConfigurationError
from offsider.core.wording import first_time
from offsider.runtime.context import JobContext, current_job_or_none
from offsider.runtime.middleware import Middleware

logger = logging.getLogger("offsider")


def scope() -> object:
    """Return the scope of a session: the running job, else the asyncio task, else the thread.

    Pass it as ``scopefunc``. SQLAlchemy's default scope is the thread, which all ``async def`` jobs share.
    """
    job = current_job_or_none()
    if job is not None:
        return job.jid, id(job)
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()


class RemoveSessions:
    """Server middleware: removes sessions after each job, sync or async, whether it succeeds or fails.

    A session that is removed without a commit is rolled back.

    Args:
        sessions: each a ``scoped_session`` or an ``async_scoped_session``.

    Raises:
        ConfigurationError: there is none, or an argument is a session or a factory instead.
    """

    def __init__(self, *sessions: Any) -> None:
        for session in sessions or (None,):
            if not hasattr(session, "registry") or not hasattr(session, "remove"):
                raise ConfigurationError(
                    f"RemoveSessions expects a scoped_session or an async_scoped_session, got {type(session).__name__}"
                )
        self._async = [session for session in sessions if iscoroutinefunction(session.remove)]
        self._sync = [session for session in sessions if session not in self._async]
        #: Sessions that belong to a thread, which other jobs use.
        self._of_threads = [session for session in self._sync if not hasattr(session.registry, "scopefunc")]

    def __call__(self, job: JobContext) -> Middleware:
        job.wrap_coroutine(self._handed_over)
        try:
            yield
        finally:
            for session in self._sync:
                session.remove()

    def _handed_over(self, coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Remove the sessions of the thread that entered the middleware, because it takes the next job now."""
        for session in self._of_threads:
            session.remove()
        return self._around(coroutine)

    async def _around(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Remove sessions in the task of an ``async def`` job: only there they can be awaited, or found by task."""
        try:
            return await coroutine
        finally:
            for session in self._sync:
                # A session that belongs to the thread may be in use by other coroutines there.
                if hasattr(session.registry, "scopefunc"):
                    session.remove()
                elif session.registry.has() and first_time("session of a thread", str(id(session))):
                    logger.warning(
                        "an async def job used a SQLAlchemy session that belongs to a thread, which other jobs share: "
                        "pass scopefunc=offsider.integrations.sqlalchemy.scope to scoped_session"
                    )
            for session in self._async:
                await session.remove()
