"""Configuration files: which file is read, and how its tree is converted to single assignments.

Precedence, strongest first: command line, environment, file, default. The ``environments.NAME`` part of a file
overrides the rest of that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from offsider.config.job_defaults import from_text
from offsider.config.settings import (
    CAPSULES,
    ENVIRONMENTS,
    GROUPS,
    JOBS,
    PERIODIC,
    SECTION_NAMES,
    SERVERS,
    SHARDS,
    CapsuleSection,
    Section,
    ServerSection,
    Setting,
    ShardSection,
    by_name,
    declared_in,
)
from offsider.config.sidekiq_yml import read_sidekiq_yml
from offsider.config.suggestions import suggest
from offsider.core.errors import ConfigurationError

_NAMED: Mapping[str, type[Section]] = {CAPSULES: CapsuleSection, SERVERS: ServerSection, SHARDS: ShardSection}
_NEEDED: Mapping[str, str] = {SERVERS: "a url", SHARDS: "queues or select"}
_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")


@dataclass(frozen=True)
class Assignment:
    """One value for one setting.

    Attributes:
        section: ``redis``, ``worker``, ``client``, ``routing``, ``slo``, ``log``, ``jobs``, ``capsules.NAME``,
            ``servers.NAME``, ``shards.NAME`` or ``periodic.NAME``.
        key: the name of the setting.
        value: the value before validation.
        origin: the source, for messages.
    """

    section: str
    key: str
    value: object
    origin: str


@dataclass(frozen=True)
class Document:
    """A configuration file as a tree with offsider's key names."""

    path: Path
    tree: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The name of the file in messages, relative to the current folder if possible."""
        return short(self.path)


def short(path: Path) -> str:
    """Return ``path`` relative to the current folder if it is inside."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def find(path: Path | None, folders: Iterable[Path]) -> Document | None:
    """Read the configuration file: ``path`` if given, else the first one in the folders.

    Raises:
        ConfigurationError: ``path`` does not exist, a file cannot be read, or the only file is Sidekiq's with ERB.
    """
    if path is not None:
        if not path.is_file():
            raise ConfigurationError(f"{path}: there is no such configuration file")
        return read(path, wanted=True)
    folders = list(dict.fromkeys(folders))
    for folder in folders:
        for name in ("offsider.toml", "pyproject.toml", "config/sidekiq.yml"):
            document = read(folder / name) if (folder / name).is_file() else None
            if document is not None:
                return document
    for folder in folders:
        template = folder / "config" / "sidekiq.yml.erb"
        if template.is_file():
            raise ConfigurationError(
                f"{short(template)}: ERB is Ruby and is not run, so nothing of this file would hold; write it as "
                "config/sidekiq.yml with ${VARIABLE} in the place of <%= … %>, or as offsider.toml"
            )
    return None


def read(path: Path, *, wanted: bool = False) -> Document | None:
    """Read a file; None for a ``pyproject.toml`` without ``[tool.offsider]``, unless it is ``wanted``."""
    if path.suffix in (".yml", ".yaml", ".erb"):
        tree, notes = read_sidekiq_yml(_text(path), short(path))
        return Document(path, tree, tuple(notes))
    if path.suffix != ".toml":
        raise ConfigurationError(f"{short(path)}: a configuration file ends in .toml, .yml or .yaml")
    tree = _read_toml(path)
    if path.name == "pyproject.toml":
        tree = tree.get("tool", {}).get("offsider")
        if tree is None and not wanted:
            return None
        if tree is None:
            raise ConfigurationError(f"{short(path)}: there is no table [tool.offsider]")
    return Document(path, tree)


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib  # imported lazily to keep `import offsider` fast

    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{short(path)}: not valid TOML: {error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{short(path)}: cannot be read: {error}") from None


def from_document(document: Document, environment: str, environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Return every value of the file that applies to ``environment``; later ones override earlier ones."""
    tree = {key: value for key, value in document.tree.items() if key != ENVIRONMENTS}
    yield from _walk(tree, document.origin, environ)
    environments = _table(document.tree.get(ENVIRONMENTS, {}), document.origin, ENVIRONMENTS)
    for name, part in environments.items():
        origin = f"{document.origin} [{ENVIRONMENTS}.{name}]"
        # The parts of other environments are checked too, so that a typo there is reported early.
        assignments = list(
            _walk(
                _table(part, document.origin, f"{ENVIRONMENTS}.{name}"),
                origin,
                environ if name == environment else None,
            )
        )
        if name == environment:
            yield from assignments


def _walk(tree: Mapping[str, object], origin: str, environ: Mapping[str, str] | None) -> Iterator[Assignment]:
    for key, value in tree.items():
        if key in SECTION_NAMES:
            yield from _section(key, _table(value, origin, key), origin, environ)
        elif key == JOBS:
            for name, default in _table(value, origin, key).items():
                filled = _fill_in(default, origin, environ)
                read = from_text(name, filled) if isinstance(filled, _Filled) else filled
                yield Assignment(JOBS, name, read, origin)
        elif key in _NAMED:
            yield from _named(key, _table(value, origin, key), origin, environ)
        elif key == PERIODIC:
            yield from _periodic(_table(value, origin, key), origin, environ)
        else:
            yield _assignment(_known(key, key, origin), value, origin, environ)


def _section(
    section: str, table: Mapping[str, object], origin: str, environ: Mapping[str, str] | None
) -> Iterator[Assignment]:
    for key, value in table.items():
        yield _assignment(_known(f"{section}.{key}", key, origin), value, origin, environ)


def _named(
    group: str, tables: Mapping[str, object], origin: str, environ: Mapping[str, str] | None
) -> Iterator[Assignment]:
    """Return the assignments of a group of named tables with the same settings."""
    declared = declared_in(_NAMED[group])
    for name, settings in tables.items():
        section = f"{group}.{name}"
        table = _table(settings, origin, section)
        if not table and group in _NEEDED:
            raise ConfigurationError(f"{origin}: {section} is an empty table; it needs {_NEEDED[group]}")
        for key, value in table.items():
            if key not in declared:
                raise ConfigurationError(f"{origin}: there is no setting {section}.{key}{suggest(key, declared)}")
            filled = _typed(declared[key], _fill_in(value, origin, environ))
            yield Assignment(section, key, filled, origin)


def _periodic(table: Mapping[str, object], origin: str, environ: Mapping[str, str] | None) -> Iterator[Assignment]:
    """Return the assignments of periodic jobs; the extension validates them."""
    for name, entry in table.items():
        section = f"{PERIODIC}.{name}"
        for key, value in _table(entry, origin, section).items():
            yield Assignment(section, key, _as_text(_fill_in(value, origin, environ)), origin)


def _assignment(setting: Setting, value: object, origin: str, environ: Mapping[str, str] | None) -> Assignment:
    filled = _typed(setting, _fill_in(value, origin, environ))
    return Assignment(setting.section, setting.key, filled, origin)


def _known(path: str, key: str, origin: str) -> Setting:
    setting = by_name().get(path)
    if setting is not None:
        return setting
    elsewhere = by_name().get(key)
    if elsewhere is not None:
        raise ConfigurationError(f"{origin}: there is no setting {path} (did you mean {elsewhere.path!r}?)")
    section = path.rpartition(".")[0]
    pool = [name for name in by_name() if name.startswith(f"{section}.")] if section else [*by_name(), *GROUPS]
    raise ConfigurationError(f"{origin}: there is no setting {path}{suggest(path, pool)}")


def _table(value: object, origin: str, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{origin}: {name} expects a table of settings, got {value!r}")
    return cast("Mapping[str, object]", value)


# ------------------------------------------------------------------------------------------ ${VARIABLE}
class _Filled(str):
    """Text with the value of a variable: it may have to be parsed as a number or a flag."""

    __slots__ = ()


def _typed(setting: Setting, value: object) -> object:
    return setting.kind.parse(value) if isinstance(value, _Filled) else value


def _as_text(value: object) -> object:
    """Convert filled-in texts to plain strings, also in lists."""
    if isinstance(value, list):
        return [_as_text(item) for item in cast("list[object]", value)]
    return str(value) if isinstance(value, _Filled) else value


def _fill_in(value: object, origin: str, environ: Mapping[str, str] | None) -> object:
    """Replace ``${VAR}`` and ``${VAR:-default}`` in every string; ``$${`` is an escaped ``${``.

    Without ``environ`` nothing is replaced: the part is for another environment, and its variables may be unset.
    """
    if isinstance(value, str):
        return _fill_in_text(value, origin, environ) if environ is not None and "${" in value else value
    if isinstance(value, list):
        return [_fill_in(item, origin, environ) for item in cast("list[object]", value)]
    return value


def _fill_in_text(value: str, origin: str, environ: Mapping[str, str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match[1] is None:
            raise ConfigurationError(f"{origin}: ${{NAME}} or ${{NAME:-default}} expected in {value!r}")
        # With a default, an empty variable counts as unset, as in a shell.
        found = environ.get(match[1]) or match[2]
        if found is None:
            found = environ.get(match[1])
        if found is None:
            raise ConfigurationError(f"{origin}: the environment variable {match[1]} is not set (in {value!r})")
        return found

    return _Filled(_REFERENCE.sub(replacement, value))
