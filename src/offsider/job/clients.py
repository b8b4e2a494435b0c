"""Which client pushes a job: the one asked for, the job's own, the running worker's, or the default one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TypeAlias

from offsider.client import AsyncClient, Client
from offsider.job.declared import Declared
from offsider.wiring.capsule import Capsule
from offsider.wiring.config import Config
from offsider.wiring.context import current_capsule
from offsider.wiring.default import default_config

AnyClient: TypeAlias = Client | AsyncClient
ClientSource: TypeAlias = AnyClient | Callable[[], AnyClient]

_lock = threading.Lock()
_clients: weakref.WeakKeyDictionary[Config | Capsule, Client] = weakref.WeakKeyDictionary()
_async_clients: weakref.WeakKeyDictionary[Config | Capsule, AsyncClient] = weakref.WeakKeyDictionary()


def client_for(job: Declared, via: ClientSource | None) -> Client:
    """The client for ``job``, in the order of the head of this file."""
    chosen = _chosen(job, via)
    if isinstance(chosen, Client):
        return chosen
    if isinstance(chosen, AsyncClient):
        return _shared(chosen.config)
    return _shared(chosen)


def async_client_for(job: Declared, via: ClientSource | None) -> AsyncClient:
    """As `client_for`, for code on an event loop; a blocking client stands for its configuration."""
    chosen = _chosen(job, via)
    if isinstance(chosen, AsyncClient):
        return chosen
    return _shared_async(chosen.config if isinstance(chosen, Client) else chosen)


def _chosen(job: Declared, via: ClientSource | None) -> AnyClient | Config | Capsule:
    source: ClientSource | None = via if via is not None else job.client
    if source is not None:
        return source if isinstance(source, Client | AsyncClient) else source()
    return current_capsule() or default_config()


def _shared(owner: Config | Capsule) -> Client:
    client = _clients.get(owner)
    if client is None:
        with _lock:
            client = _clients.get(owner)
            if client is None:
                client = _clients[owner] = _make(owner)
    return client


def _shared_async(owner: Config | Capsule) -> AsyncClient:
    client = _async_clients.get(owner)
    if client is None:
        with _lock:
            client = _async_clients.get(owner)
            if client is None:
                client = _async_clients[owner] = _make_async(owner)
    return client


def _make(owner: Config | Capsule) -> Client:
    if isinstance(owner, Capsule):
        return Client(owner.config, owner.redis, middleware=owner.client_middleware)
    return Client(owner)


def _make_async(owner: Config | Capsule) -> AsyncClient:
    if isinstance(owner, Capsule):
        return AsyncClient(owner.config, middleware=owner.client_middleware)
    return AsyncClient(owner)
