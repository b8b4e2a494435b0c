"""Reads the settings of the file, the environment and the command line, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from offsider.config.application import Application, application, django_project
from offsider.config.environment import (
    DEFAULT_ENVIRONMENT,
    environment_name,
    from_environ,
    from_platform,
    odd_variables,
)
from offsider.config.files import Assignment, Document, find, from_document, from_tree
from offsider.config.settings import SHARDS, ShardSection, by_name
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest


@dataclass(frozen=True)
class Loaded:
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
    """Read all sources; the arguments are those of `Config.load`.

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
        (*(document.notes if document is not None else ()), *odd_variables(environ)),
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
    # The file's groups are other queues for the supervisor's processes.
    yield Assignment("worker", "groups", (), origin)
    yield Assignment("worker", "mode", shard.mode, origin)
    for key, number in (("concurrency", shard.concurrency), ("processes", shard.processes)):
        if number:
            yield Assignment("worker", key, number, origin)


def _override(name: str, value: object) -> Assignment:
    setting = by_name().get(name)
    if setting is None:
        raise ConfigurationError(f"there is no setting {name}{suggest(name, by_name())}")
    return Assignment(setting.section, setting.key, value, setting.option or "command line")


def _environment(document: Document, given: Iterable[Assignment], environ: Mapping[str, str]) -> str:
    """Select the part of the file's ``environments``: by ``-e``, the environment's variables, then the file."""
    for item in given:
        if (item.section, item.key) == ("worker", "environment"):
            return str(item.value)
    nested: Any = document.tree.get("worker") or {}
    written: Any = document.tree.get("environment") or (nested.get("environment") if hasattr(nested, "get") else None)
    return environment_name(environ) or str(written or DEFAULT_ENVIRONMENT)
