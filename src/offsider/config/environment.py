"""Settings from environment variables: which variable sets which setting, and their precedence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from offsider.config.files import Assignment
from offsider.config.job_defaults import TEXTUAL, from_text
from offsider.config.settings import CAPSULES, JOBS, CapsuleSection, Setting, by_name, declared_in, every_setting
from offsider.config.suggestions import nearest
from offsider.core.errors import ConfigurationError

DEFAULT_ENVIRONMENT = "development"
PREFIX = "OFFSIDER_"
# Read elsewhere: the path of the embedded server's program, and the password of the web pages.
FOREIGN = frozenset({"OFFSIDER_VALKEY_SERVER", "OFFSIDER_WEB_USER", "OFFSIDER_WEB_PASSWORD"})
# Only workers read the shard: web processes and other commands may run with the same environment.
OF_WORKERS = frozenset(by_name()["worker.shard"].variables)
_OPTION = {f"{PREFIX}JOBS_{option.upper()}": option for option in TEXTUAL}
_OF_A_CAPSULE = re.compile(r"OFFSIDER_CAPSULES_(?P<name>.+)_(?P<key>[A-Z]+)")


def from_environ(
    environ: Mapping[str, str], capsules: Collection[str] = (), *, for_worker: bool = False
) -> Iterator[Assignment]:
    """Return one assignment for each setting that an environment variable sets.

    Args:
        environ: the environment.
        for_worker: whether to read the variables that only workers read.
        capsules: names of the configured capsules, for variables such as ``OFFSIDER_CAPSULES_EXPORTS_CONCURRENCY``.
    """
    if not for_worker:
        environ = {name: value for name, value in environ.items() if name not in OF_WORKERS}
    yield from _of_sections(environ)
    for variable, option in _OPTION.items():
        if variable in environ:
            yield Assignment(JOBS, option, from_text(option, environ[variable]), variable)
    for variable in sorted(environ):
        yield from _of_capsule(variable, environ[variable], capsules)


def _of_sections(environ: Mapping[str, str]) -> Iterator[Assignment]:
    for setting in every_setting():
        for variable in setting.variables:
            value = environ.get(variable)
            if value is None or (value == "" and not variable.startswith(PREFIX)):
                continue
            if variable == "REDIS_PROVIDER":
                yield _provided(setting, value, environ)
            else:
                yield Assignment(setting.section, setting.key, setting.kind.parse(value), variable)
            break


def _of_capsule(variable: str, value: str, capsules: Collection[str]) -> Iterator[Assignment]:
    match = _OF_A_CAPSULE.fullmatch(variable)
    setting = declared_in(CapsuleSection).get(match["key"].lower()) if match else None
    if match and setting:
        # Variables have no lowercase letters, "-" or ".", unlike the names of capsules.
        known = (name for name in capsules if re.sub(r"[-.]", "_", name).upper() == match["name"].upper())
        name = next(known, match["name"].lower())
        yield Assignment(f"{CAPSULES}.{name}", setting.key, setting.kind.parse(value), variable)


def from_platform(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Return the defaults of the platform, which every file overrides.

    Heroku's log already has timestamps. ``RAILS_MAX_THREADS`` is the number of threads on platforms that configure web
    and worker processes alike, with Rails or beside it; Sidekiq uses it as its default too.
    """
    if "DYNO" in environ:
        yield Assignment("log", "format", "without_timestamp", "DYNO")
    if threads := environ.get("RAILS_MAX_THREADS"):
        concurrency = by_name()["worker.concurrency"]
        yield Assignment(concurrency.section, concurrency.key, concurrency.kind.parse(threads), "RAILS_MAX_THREADS")


def environment_name(environ: Mapping[str, str]) -> str | None:
    """Return the environment name from the variables of ``worker.environment``; None if none is set."""
    variables = by_name()["worker.environment"].variables
    return next((environ[name] for name in variables if environ.get(name)), None)


def odd_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Return a warning for each variable that looks like a misspelled setting.

    Not an error: container platforms set variables like ``OFFSIDER_REDIS_PORT`` for a service of that name.
    """
    known = {variable for setting in every_setting() for variable in setting.variables} | set(_OPTION)
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in known | FOREIGN:
            of_capsule = _OF_A_CAPSULE.fullmatch(variable)
            keys = declared_in(CapsuleSection)
            if of_capsule and of_capsule["key"].lower() in keys:
                continue
            ways = {f"{PREFIX}CAPSULES_{of_capsule['name']}_{key.upper()}" for key in keys} if of_capsule else known
            match = nearest(variable, ways)
            if match:
                yield f"the environment variable {variable} sets nothing; did you mean {match}?"


def _provided(setting: Setting, name: str, environ: Mapping[str, str]) -> Assignment:
    """Resolve ``REDIS_PROVIDER``: the name of the variable with the URL, as add-ons of platforms set it."""
    if "://" in name:
        raise ConfigurationError("REDIS_PROVIDER holds the name of a variable, not a URL; put the URL into REDIS_URL")
    if not environ.get(name):
        raise ConfigurationError(f"REDIS_PROVIDER names the variable {name}, which is not set")
    return Assignment(setting.section, setting.key, environ[name], name)
