"""Consistency checks of the servers and shards of a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from offsider.config.routing import MAIN
from offsider.config.settings import RedisSection, ShardSection
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def check_server_name(name: str) -> str:
    """Return the name of an additional server; ConfigurationError if it cannot be used."""
    if name == MAIN or not _NAME.fullmatch(name):
        what = "it is the name of [redis]" if name == MAIN else "a name may contain only letters, digits and _ . -"
        raise ConfigurationError(f"servers.{name}: the name cannot be used: {what}")
    return name


def named_server(name: str, servers: Mapping[str, RedisSection]) -> RedisSection:
    """Return the section of the server ``name``; ConfigurationError when there is none."""
    section = servers.get(name)
    if section is None:
        raise ConfigurationError(
            f"there is no server {name!r}{suggest(name, servers)}: a table [servers.{name}] with its url is "
            f"missing; there are {', '.join(servers)}"
        )
    return section


def check_servers(servers: Mapping[str, RedisSection], file: Path | None) -> None:
    """Raise ConfigurationError when a server has no URL, or two names mean the same server."""
    for name, section in servers.items():
        if not section.url:
            raise ConfigurationError(f"{_where(file)}: servers.{name} needs a url")
    check_different_servers(servers, file)


def check_different_servers(servers: Mapping[str, RedisSection], file: Path | None) -> None:
    """Raise ConfigurationError for two names of one server: a migration would move its jobs from it to itself."""
    named: dict[tuple[object, ...], str] = {}
    for name, section in servers.items():
        place = (section.url, section.prefix, section.sentinels, section.sentinel_name)
        other = named.setdefault(place, name)
        if other != name:
            raise ConfigurationError(
                f"{_where(file)}: the servers {other} and {name} are the same one, {section.redacted_url}; "
                "leave one of them out"
            )


def check_shards(shards: Mapping[str, ShardSection], servers: Mapping[str, RedisSection], file: Path | None) -> None:
    """Raise ConfigurationError when a shard contradicts itself or names an unknown server."""
    where = _where(file)
    for name, shard in shards.items():
        if shard.queues and shard.select:
            raise ConfigurationError(f"{where}: shards.{name} has both queues and select; give one of them")
        if shard.server not in servers:
            raise ConfigurationError(
                f"{where}: shards.{name}.server is {shard.server!r}, and there is no such server"
                f"{suggest(shard.server, servers)}: a table [servers.{shard.server}] is missing"
            )
        if 0 < shard.max_replicas < shard.min_replicas:
            raise ConfigurationError(
                f"{where}: shards.{name}.min_replicas is {shard.min_replicas}, above its max_replicas, "
                f"{shard.max_replicas}: set it to that at most"
            )
        if not shard.queues and not shard.select:
            raise ConfigurationError(f"{where}: shards.{name} has neither queues nor select; give one of them")


def _where(file: Path | None) -> str:
    return str(file or "the configuration")
