"""Selects the client of a push: the requested one, the running worker's, or the default one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from offsider.client import AsyncClient, Client
from offsider.config.config import Config
from offsider.config.containers import Shared
from offsider.config.installation import Installation
from offsider.runtime.middleware import ClientChain
from offsider.storage.redis import Redis

AnyClient: TypeAlias = Client | AsyncClient
ClientSource: TypeAlias = AnyClient | Callable[[], AnyClient]


class Clients:
    """The client and the asynchronous client of one installation or one capsule, made at first use.

    Args:
        server: the server.
        redis: pool of the blocking client; by default the shared one.
        middleware: by default that of the configuration.
        timeout_seconds: maximum duration of a push; by default that of clients.
    """

    def __init__(
        self,
        server: Installation,
        redis: Redis | None = None,
        middleware: ClientChain | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        self._server = server
        self._redis = redis
        self._options: Any = {"middleware": middleware, "timeout_seconds": timeout_seconds}
        self._made = Shared()

    @classmethod
    def of(cls, config: Config | Installation | None = None) -> Clients:
        """Return the clients that all users of a configuration share; by default this process's."""
        server = Installation.of(config)
        return server.shared.get(Clients, lambda: Clients(server))

    @property
    def blocking(self) -> Client:
        return self._made.get(Client, lambda: Client(self._server, self._redis, **self._options))

    @property
    def asynchronous(self) -> AsyncClient:
        return self._made.get(AsyncClient, lambda: AsyncClient(self._server, **self._options))


#: The clients of the capsule whose thread or task this is; None outside of a worker.
_of_capsule: ContextVar[Clients | None] = ContextVar("offsider_clients", default=None)


@contextmanager
def pushing_with(clients: Clients) -> Generator[None, None, None]:
    """Have jobs that are enqueued inside of the block pushed by ``clients``."""
    token = _of_capsule.set(clients)
    try:
        yield
    finally:
        _of_capsule.reset(token)


def client_for(via: ClientSource | None = None) -> Client:
    """Return the client of a push, in the order of the module docstring."""
    chosen = _chosen(via)
    if isinstance(chosen, Client):
        return chosen
    return chosen.blocking if isinstance(chosen, Clients) else Clients.of(chosen.installation).blocking


def async_client_for(via: ClientSource | None = None) -> AsyncClient:
    """Like `client_for`, for code on an event loop; a blocking client is replaced by one of its configuration."""
    chosen = _chosen(via)
    if isinstance(chosen, AsyncClient):
        return chosen
    return chosen.asynchronous if isinstance(chosen, Clients) else Clients.of(chosen.installation).asynchronous


def _chosen(via: ClientSource | None) -> AnyClient | Clients:
    if via is not None:
        return via if isinstance(via, (Client, AsyncClient)) else via()
    return _of_capsule.get() or Clients.of()
