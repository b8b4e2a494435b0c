"""Which client pushes a job: the one asked for, the job's own, the running worker's, or the default one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from offsider.client import AsyncClient, Client
from offsider.jobs.declared import Declared
from offsider.wiring.capsule import Capsule
from offsider.wiring.config import Config
from offsider.wiring.context import current_capsule
from offsider.wiring.default import default_config

AnyClient: TypeAlias = Client | AsyncClient
ClientSource: TypeAlias = AnyClient | Callable[[], AnyClient]

_Owner: TypeAlias = Config | Capsule


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


def _chosen(job: Declared, via: ClientSource | None) -> AnyClient | _Owner:
    source: ClientSource | None = via if via is not None else job.client
    if source is not None:
        return source if isinstance(source, Client | AsyncClient) else source()
    return current_capsule() or default_config()


def _shared(owner: _Owner) -> Client:
    return owner.kept.get(Client, lambda: _make(owner))


def _shared_async(owner: _Owner) -> AsyncClient:
    return owner.kept.get(AsyncClient, lambda: _make_async(owner))


def _make(owner: _Owner) -> Client:
    if isinstance(owner, Capsule):
        return Client(owner.config, owner.redis, middleware=owner.client_middleware)
    return Client(owner)


def _make_async(owner: _Owner) -> AsyncClient:
    if isinstance(owner, Capsule):
        return AsyncClient(owner.config, middleware=owner.client_middleware)
    return AsyncClient(owner)
