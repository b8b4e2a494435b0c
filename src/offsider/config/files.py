"""Configuration files: which file is read, and how its tree is converted to single assignments.

Precedence, strongest first: command line, environment, file, default. The ``environments.NAME`` part of a file
overrides the rest of that file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

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
    RedisSection,
    Section,
    Setting,
    ShardSection,
    by_name,
    declared_in,
    unknown_setting,
)
from offsider.config.sidekiq_yml import read_sidekiq_yml
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest

_NAMED: Mapping[str, type[Section]] = {CAPSULES: CapsuleSection, SERVERS: RedisSection, SHARDS: ShardSection}
_NEEDED: Mapping[str, str] = {SERVERS: "a url", SHARDS: "queues or select"}
_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")


class Assignment(NamedTuple):
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


class Document(NamedTuple):
    """A configuration file as a tree with offsider's key names."""

    path: Path
    tree: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The name of the file in messages, relative to the current folder if possible."""
        return short(self.path)


def current_folder() -> Path | None:
    """Return the current folder; None if it has been removed, for example by a deploy."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


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
            raise ConfigurationError(f"{path}: configuration file not found")
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
                f"{short(template)}: offsider does not run ERB and cannot read this file; write it as "
                "config/sidekiq.yml with ${VARIABLE} in place of <%= … %>, or as offsider.toml"
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
    yield from from_tree(tree, document.origin, environ)
    environments = _table(document.tree.get(ENVIRONMENTS, {}), document.origin, ENVIRONMENTS)
    for name, part in environments.items():
        applies = name == environment
        table = _table(part, document.origin, f"{ENVIRONMENTS}.{name}")
        # The parts of other environments are checked too, so that a typo there is reported early.
        found = [*from_tree(table, f"{document.origin} [{ENVIRONMENTS}.{name}]", environ if applies else None)]
        yield from found if applies else ()


def from_tree(tree: Mapping[str, object], origin: str, environ: Mapping[str, str] | None) -> Iterator[Assignment]:
    """Return every value of a tree in the format of a file, without ``environments``.

    Without ``environ``, for another environment, ``${VAR}`` is left as it is.
    """
    for section, key, value in _places(tree, origin):
        place, parse = _setting(section, key, origin)
        yield Assignment(*place, _filled(value, origin, environ, parse), origin)


def _places(tree: Mapping[str, object], origin: str) -> Iterator[tuple[str, str, object]]:
    """Return section, key and value of every setting; the section is empty if the file omits it."""
    for name, value in tree.items():
        if name in (*SECTION_NAMES, JOBS):
            yield from ((name, *item) for item in _table(value, origin, name).items())
        elif name in (*_NAMED, PERIODIC):
            for each, settings in _table(value, origin, name).items():
                section = f"{name}.{each}"
                table = _table(settings, origin, section)
                if not table and name in _NEEDED:
                    raise ConfigurationError(f"{origin}: {section} is an empty table; it needs {_NEEDED[name]}")
                yield from ((section, *item) for item in table.items())
        else:
            yield "", name, value


def _setting(section: str, key: str, origin: str) -> tuple[tuple[str, str], Callable[[str], object]]:
    """Return the section and the key of a setting, and the parser of its text."""
    group = section.partition(".")[0]
    if group in (JOBS, PERIODIC):  # `JobDefaults` and the extension validate them
        return (section, key), partial(from_text, key)
    if group in _NAMED:
        declared = declared_in(_NAMED[group])
        if key not in declared:
            raise unknown_setting(f"{section}.{key}", suggest(key, declared), origin)
        return (section, key), declared[key].kind.parse
    setting = _known(f"{section}.{key}" if section else key, key, origin)
    return (setting.section, setting.key), setting.kind.parse


def _known(path: str, key: str, origin: str) -> Setting:
    setting = by_name().get(path)
    if setting is not None:
        return setting
    elsewhere = by_name().get(key)
    if elsewhere is not None:
        raise unknown_setting(path, f" (did you mean {elsewhere.path!r}?)", origin)
    section = path.rpartition(".")[0]
    pool = [name for name in by_name() if name.startswith(f"{section}.")] if section else [*by_name(), *GROUPS]
    raise unknown_setting(path, suggest(path, pool), origin)


def _table(value: object, origin: str, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{origin}: {name} expects a table of settings, got {value!r}")
    return cast("Mapping[str, object]", value)


def _filled(
    value: object, origin: str, environ: Mapping[str, str] | None, parse: Callable[[str], object] = str
) -> object:
    """Replace ``${VAR}`` and ``${VAR:-default}`` in texts; ``$${`` is an escaped ``${``.

    A text with a variable is parsed as the text of an environment variable would be: it may be a number or a flag.
    """
    if isinstance(value, list):
        return [_filled(item, origin, environ) for item in cast("list[object]", value)]
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _filled(item, origin, environ) for key, item in items}
    if not isinstance(value, str) or environ is None or "${" not in value:
        return value

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match[1] is None:
            raise ConfigurationError(f"{origin}: ${{NAME}} or ${{NAME:-default}} expected in {value!r}")
        # With a default, an empty variable counts as unset, as in a shell.
        found = environ.get(match[1]) or match[2]
        if found is None and match[1] not in environ:
            raise ConfigurationError(f"{origin}: the environment variable {match[1]} is not set (in {value!r})")
        return found or ""

    return parse(_REFERENCE.sub(replacement, value))
