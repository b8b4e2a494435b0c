"""Reads the settings of files, the environment and the command line, as single assignments.

Precedence, strongest first: command line, environment, web application, file, default. The ``environments.NAME`` part
of a file overrides the rest of that file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from offsider.config.settings import (
    CAPSULES,
    ENVIRONMENTS,
    GROUPS,
    JOBS,
    PERIODIC,
    PREFIX,
    SECTIONS,
    SERVERS,
    SHARDS,
    CapsuleSection,
    RedisSection,
    Section,
    Setting,
    ShardSection,
    by_name,
    declared_in,
    every_setting,
    unknown_setting,
)
from offsider.config.sidekiq_yml import read_sidekiq_yml
from offsider.core.errors import ConfigurationError
from offsider.core.options import OPTIONS, TRANSIENT
from offsider.core.removed import SETTINGS, setting_message
from offsider.core.suggestions import nearest, suggest

DEFAULT_ENVIRONMENT = "development"
#: Set by ``manage.py offsider`` of a Django project with ``DEBUG``.
RELOAD_BY_DEFAULT = "DJANGO_OFFSIDER_RELOAD"
# Variables that other modules read: the path of the embedded server's program, and the password of the web pages.
OTHER_VARIABLES = frozenset({"OFFSIDER_VALKEY_SERVER", "OFFSIDER_WEB_USER", "OFFSIDER_WEB_PASSWORD"})

_SECTION_NAMES = tuple(section.section for section in SECTIONS)
_NAMED: Mapping[str, type[Section]] = {CAPSULES: CapsuleSection, SERVERS: RedisSection, SHARDS: ShardSection}
_REQUIRED: Mapping[str, str] = {SERVERS: "a url", SHARDS: "queues or select"}
_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")


class Assignment(NamedTuple):
    """One value for one setting.

    Attributes:
        section: a section, ``jobs``, ``capsules.NAME``, ``servers.NAME``, ``shards.NAME`` or ``periodic.NAME``.
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


#: The default options of jobs that a text can set, with their parsers. `JobDefaults` validates the values.
_OPTIONS = {"codec": str} | {option: kind.parse for option, kind in OPTIONS.items() if option not in TRANSIENT}
_OPTION_VARIABLES = {f"{PREFIX}JOBS_{option.upper()}": option for option in _OPTIONS}
_VARIABLES = {*_OPTION_VARIABLES, *(variable for setting in every_setting() for variable in setting.variables)}
_CAPSULE_VARIABLE = re.compile(f"{PREFIX}CAPSULES_.+_({'|'.join(declared_in(CapsuleSection)).upper()})")


# ----------------------------------------------------------------------------------------------------
# Files


def current_folder() -> Path | None:
    """Return the current folder; None if it has been removed, for example by a deploy."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _short(path: Path) -> str:
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
        return _read(path, wanted=True)
    folders = list(dict.fromkeys(folders))
    for folder in folders:
        for name in ("offsider.toml", "pyproject.toml", "config/sidekiq.yml"):
            document = _read(folder / name) if (folder / name).is_file() else None
            if document is not None:
                return document
    for folder in folders:
        template = folder / "config" / "sidekiq.yml.erb"
        if template.is_file():
            raise ConfigurationError(
                f"{_short(template)}: offsider does not run ERB and cannot read this file; write it as "
                "config/sidekiq.yml with ${VARIABLE} in place of <%= … %>, or as offsider.toml"
            )
    return None


def _read(path: Path, *, wanted: bool = False) -> Document | None:
    """Read a file; None for a ``pyproject.toml`` without ``[tool.offsider]``, unless it is ``wanted``."""
    if path.suffix in (".yml", ".yaml", ".erb"):
        tree, notes = read_sidekiq_yml(_text(path), _short(path))
        return Document(path, tree, tuple(notes))
    if path.suffix != ".toml":
        raise ConfigurationError(f"{_short(path)}: a configuration file ends in .toml, .yml or .yaml")
    import tomllib  # imported lazily to keep `import offsider` fast

    try:
        tree = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{_short(path)}: not valid TOML: {error}") from None
    if path.name == "pyproject.toml":
        own = tree.get("tool", {}).get("offsider")
        if own is None and wanted:
            raise ConfigurationError(f"{_short(path)}: there is no table [tool.offsider]")
        return None if own is None else Document(path, own)
    return Document(path, tree)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{_short(path)}: cannot be read: {error}") from None


def from_document(document: Document, given: Iterable[Assignment], environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Yield the values of a file for the environment that ``given`` or ``environ`` names; later ones are stronger."""
    origin = _short(document.path)
    environment = _environment(document, given, environ)
    tree = {key: value for key, value in document.tree.items() if key != ENVIRONMENTS}
    yield from from_tree(tree, origin, environ)
    environments = _table(document.tree.get(ENVIRONMENTS, {}), origin, ENVIRONMENTS)
    for name, part in environments.items():
        applies = name == environment
        table = _table(part, origin, f"{ENVIRONMENTS}.{name}")
        # The parts of other environments are checked too, so that a typo there is reported early.
        found = [*from_tree(table, f"{origin} [{ENVIRONMENTS}.{name}]", environ if applies else None)]
        yield from found if applies else ()


def _environment(document: Document, given: Iterable[Assignment], environ: Mapping[str, str]) -> str:
    for item in given:
        if (item.section, item.key) == ("worker", "environment"):
            return str(item.value)
    nested: Any = document.tree.get("worker") or {}
    written: Any = document.tree.get("environment") or (nested.get("environment") if hasattr(nested, "get") else None)
    return environment_name(environ) or str(written or DEFAULT_ENVIRONMENT)


def from_tree(tree: Mapping[str, object], origin: str, environ: Mapping[str, str] | None) -> Iterator[Assignment]:
    """Yield the values of a tree in the format of a file, without ``environments``.

    Without ``environ``, for another environment, ``${VAR}`` is left as it is.
    """
    for section, key, value in _places(tree, origin):
        place, parse = _setting(section, key, origin)
        yield Assignment(*place, _filled(value, origin, environ, parse), origin)


def _places(tree: Mapping[str, object], origin: str) -> Iterator[tuple[str, str, object]]:
    """Yield section, key and value of every setting; the section is empty if the file omits it."""
    for name, value in tree.items():
        if name in (*_SECTION_NAMES, JOBS):
            yield from ((name, *item) for item in _table(value, origin, name).items())
        elif name in GROUPS:
            for each, settings in _table(value, origin, name).items():
                section = f"{name}.{each}"
                table = _table(settings, origin, section)
                if not table and name in _REQUIRED:
                    raise ConfigurationError(f"{origin}: {section} is an empty table; it needs {_REQUIRED[name]}")
                yield from ((section, *item) for item in table.items())
        else:
            yield "", name, value


def _setting(section: str, key: str, origin: str) -> tuple[tuple[str, str], Callable[[str], object]]:
    """Return the section and the key of a setting, and the parser of its text."""
    group = section.partition(".")[0]
    if group in (JOBS, PERIODIC):  # `JobDefaults` and the extension validate them
        return (section, key), _OPTIONS.get(key, str)
    path = f"{section}.{key}" if section else key
    if group in _NAMED:
        declared = declared_in(_NAMED[group])
        if key not in declared:
            raise unknown_setting(path, suggest(key, declared), origin)
        return (section, key), declared[key].kind.parse
    setting = by_name().get(path)
    if setting is None:
        raise unknown_setting(path, _similar(section, key), origin)
    return (setting.section, setting.key), setting.kind.parse


def _similar(section: str, key: str) -> str:
    if key in by_name():
        return f" (did you mean {by_name()[key].path!r}?)"
    if section:
        return suggest(f"{section}.{key}", [name for name in by_name() if name.startswith(f"{section}.")])
    return suggest(key, [*by_name(), *GROUPS])


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


# ----------------------------------------------------------------------------------------------------
# Command line and environment


def from_command_line(overrides: Mapping[str, object]) -> Iterator[Assignment]:
    """Yield settings given by ``section.key`` or key. Raises ConfigurationError for an unknown one."""
    for name, value in overrides.items():
        setting = by_name().get(name)
        if setting is None:
            raise unknown_setting(name, suggest(name, by_name()))
        yield Assignment(setting.section, setting.key, value, setting.option or "command line")


def from_environ(environ: Mapping[str, str], *, for_worker: bool = False) -> Iterator[Assignment]:
    """Yield an assignment for each setting in the environment.

    Args:
        environ: the environment.
        for_worker: whether to read ``worker.shard``. Other processes ignore it, because they may share a worker's
            environment.

    Raises:
        ConfigurationError: a variable sets a capsule.
    """
    for path in SETTINGS:
        if (variable := f"{PREFIX}{path.replace('.', '_')}".upper()) in environ:
            raise ConfigurationError(f"{variable}: {setting_message(path)}")
    for variable in sorted(environ):
        if _CAPSULE_VARIABLE.fullmatch(variable):
            raise ConfigurationError(
                f"capsules cannot be set with environment variables: rename {variable}, and use ${{NEW_NAME}} in the "
                "capsule's table"
            )
    for setting in every_setting():
        if for_worker or setting.path != "worker.shard":
            yield from _assignments(setting, environ)
    for variable, option in _OPTION_VARIABLES.items():
        if variable in environ:
            yield Assignment(JOBS, option, _OPTIONS[option](environ[variable]), variable)


def _assignments(setting: Setting, environ: Mapping[str, str]) -> Iterator[Assignment]:
    for variable in setting.variables:
        value = environ.get(variable)
        # Other programs unset a variable by setting it to an empty string.
        if value is None or (value == "" and not variable.startswith(PREFIX)):
            continue
        if variable == "REDIS_PROVIDER":
            variable, value = value, _provided(value, environ)  # noqa: PLW2901
        yield Assignment(setting.section, setting.key, setting.kind.parse(value), variable)
        return


def _provided(name: str, environ: Mapping[str, str]) -> str:
    """Resolve ``REDIS_PROVIDER``: it names the variable that contains the URL, as Heroku add-ons set it."""
    if "://" in name:
        raise ConfigurationError("REDIS_PROVIDER must be the name of a variable, not a URL: set REDIS_URL instead")
    if not environ.get(name):
        raise ConfigurationError(f"REDIS_PROVIDER names the variable {name}, which is not set")
    return environ[name]


def from_platform(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Yield platform defaults. Any configuration file overrides them.

    ``RAILS_MAX_THREADS`` is the default concurrency, as in Sidekiq:
    platforms often set it for web and worker processes alike.
    """
    if environ.get(RELOAD_BY_DEFAULT):
        yield Assignment("worker", "reload", True, RELOAD_BY_DEFAULT)  # the setting's value
    if threads := environ.get("RAILS_MAX_THREADS"):
        kind = by_name()["worker.concurrency"].kind
        yield Assignment("worker", "concurrency", kind.parse(threads), "RAILS_MAX_THREADS")


def environment_name(environ: Mapping[str, str]) -> str | None:
    """Return the environment name (``OFFSIDER_ENV`` and its fallbacks), or None."""
    variables = by_name()["worker.environment"].variables
    return next((environ[name] for name in variables if environ.get(name)), None)


def misspelled_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that looks like a misspelled setting.

    Not an error: Kubernetes sets variables such as ``OFFSIDER_REDIS_PORT`` for a service named ``offsider-redis``.
    """
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in _VARIABLES | OTHER_VARIABLES:
            match = nearest(variable, _VARIABLES)
            if match:
                yield f"the environment variable {variable} sets nothing; did you mean {match}?"
