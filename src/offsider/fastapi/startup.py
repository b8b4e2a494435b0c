"""The lifespan of a web process that pushes jobs. Needs only Starlette."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias

from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable

logger = logging.getLogger("offsider")

#: As FastAPI and Starlette define it: takes the application, and may yield a state.
Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]

#: Applications between start and end. Jobs that run in this process, as in tests, use their dependency overrides.
running_apps: list[Any] = []


def lifespan(own: Lifespan | None = None, *, config: Config | None = None) -> Lifespan:
    """Return a lifespan that checks the server at the start, and closes the connections of the clients at the end.

    ::

        app = FastAPI(lifespan=lifespan())
        app = FastAPI(lifespan=lifespan(my_lifespan))

    An unreachable server is logged as an error and the application starts: only pushes need the server. In a test
    mode of `offsider.testing` the server is not checked.

    Args:
        own: the application's own lifespan. It runs inside of this one, so it may push jobs.
        config: the configuration; default: that of this process.

    Raises (at the start):
        ConfigurationError: a setting is invalid.
        RedisRefused: the server refuses the login, or is a node of a Cluster.
    """

    @asynccontextmanager
    async def around(app: Any) -> AsyncGenerator[Any, None]:
        server = Installation.of(config)
        if test_mode.current() is None:
            await _check(server)
        running_apps.append(app)
        try:
            async with nullcontext() if own is None else own(app) as state:
                yield state
        finally:
            running_apps.remove(app)
            server.close()

    return around


async def _check(server: Installation) -> None:
    try:
        # With a wrong password the next question has an error as its answer.
        await server.loop_threads.run(partial(server.redis.call, "PING"))
        await server.loop_threads.run(server.redis.check_server)
    except RedisUnavailable as error:
        # One line: the traceback shows only the connection.
        logger.error("the application starts, but pushes of jobs will fail: %s", error)  # noqa: TRY400
