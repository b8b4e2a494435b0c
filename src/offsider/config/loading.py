"""Reads the settings of the file, the environment and the command line, in the order in which they are applied.

The servers and shards of the result are checked against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from offsider.config.application import Application, application, django_project
from offsider.config.environment import (
    DEFAULT_ENVIRONMENT,
    environment_name,
    from_environ,
    from_platform,
    misspelled_variables,
)
from offsider.config.files import Assignment, Document, find, from_document, from_tree
from offsider.config.routing import MAIN
from offsider.config.settings import SHARDS, RedisSection, ShardSection, by_name, unknown_setting
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest


class Loaded(NamedTuple):
    """The assignments for a configuration; later ones override earlier ones.

    Attributes:
        file: the configuration file that was read, if any.
        warnings: for the log of the command line.
        application: the web application that configures the process, if any.
        written: defaults of the platform, the file, then the application.
        stronger: environment variables, then the command line. They also override the shard that a worker serves.
    """

    file: Path | None
    application: Application | None
    warnings: tuple[str, ...]
    written: tuple[Assignment, ...]
    stronger: tuple[Assignment, ...]


def read_all(
    path: Path | None,
    folders: Iterable[Path],
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    *,
    for_worker: bool,
) -> Loaded:
    """Read all sources; takes the arguments of `Config.load`.

    Raises:
        ConfigurationError: a source cannot be read, or sets something unknown.
    """
    given = [_override(name, value) for name, value in overrides.items()]
    app = application() or django_project(environ)
    if path is None and app is not None and app.replaces_file:
        document: Document | None = Document(Path(app.origin), app.settings)
    else:
        document = find(path, folders)
    written = [*from_platform(environ)]
    if document is not None:
        written += from_document(document, _environment(document, given, environ), environ)
    if app is not None and not app.replaces_file:
        written += from_tree(app.settings, app.origin, environ)
    return Loaded(
        None if document is None else document.path,
        app,
        (*(document.notes if document is not None else ()), *misspelled_variables(environ)),
        tuple(written),
        (*from_environ(environ, for_worker=for_worker), *given),
    )


def of_shard(name: str, shards: Mapping[str, ShardSection]) -> Iterator[Assignment]:
    """Return the settings of a worker that serves the shard ``name``. They override the rest of the file."""
    shard = shards.get(name)
    if shard is None:
        known = f"there are {', '.join(shards)}" if shards else "the configuration has none"
        raise ConfigurationError(f"there is no shard {name!r}{suggest(name, shards)}; {known}")
    origin = f"{SHARDS}.{name}"
    yield Assignment("worker", "queues", shard.queues, origin)
    for key, number in (("concurrency", shard.concurrency), ("processes", shard.processes)):
        if number:
            yield Assignment("worker", key, number, origin)


def _override(name: str, value: object) -> Assignment:
    setting = by_name().get(name)
    if setting is None:
        raise unknown_setting(name, suggest(name, by_name()))
    return Assignment(setting.section, setting.key, value, setting.option or "command line")


def _environment(document: Document, given: Iterable[Assignment], environ: Mapping[str, str]) -> str:
    """Select the part of the file's ``environments``: by ``-e``, the environment's variables, then the file."""
    for item in given:
        if (item.section, item.key) == ("worker", "environment"):
            return str(item.value)
    nested: Any = document.tree.get("worker") or {}
    written: Any = document.tree.get("environment") or (nested.get("environment") if hasattr(nested, "get") else None)
    return environment_name(environ) or str(written or DEFAULT_ENVIRONMENT)


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


def check_server(name: str, servers: Mapping[str, RedisSection], *, of: str) -> None:
    """Raise ConfigurationError, with a message that begins with ``of``, if there is no server of this name."""
    try:
        named_server(name, servers)
    except ConfigurationError as error:
        raise ConfigurationError(f"{of}: {error}") from None


def check_servers(servers: Mapping[str, RedisSection], file: Path | None) -> None:
    """Raise ConfigurationError when a server has no URL, or two names mean the same server."""
    for name, section in servers.items():
        if not section.url:
            raise ConfigurationError(f"{_where(file)}: servers.{name} needs a url")
    check_different_servers(servers, file)


def check_different_servers(servers: Mapping[str, RedisSection], file: Path | None) -> None:
    """Raise ConfigurationError for two names of one server."""
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
        if not shard.queues and not shard.select:
            raise ConfigurationError(f"{where}: shards.{name} has neither queues nor select; give one of them")


def _where(file: Path | None) -> str:
    return str(file or "the configuration")
