"""Settings from environment variables: which variable feeds which setting, and which one wins."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from offsider.core.errors import ConfigurationError
from offsider.wiring.job_defaults import TEXTUAL, from_text
from offsider.wiring.nearest import nearest
from offsider.wiring.settings import CAPSULES, JOBS, CapsuleSection, Setting, by_name, declared_in, every_setting
from offsider.wiring.sources import Assignment

DEFAULT_ENVIRONMENT = "development"
PREFIX = "OFFSIDER_"
# Read elsewhere: the path of the embedded server's program, and the password of the web pages.
FOREIGN = frozenset({"OFFSIDER_VALKEY_SERVER", "OFFSIDER_WEB_USER", "OFFSIDER_WEB_PASSWORD"})
# A shard is that of a worker: the same environment may be that of web processes, and of commands that look at servers.
OF_WORKERS = frozenset(by_name()["worker.shard"].variables)
_OPTION = {f"{PREFIX}JOBS_{option.upper()}": option for option in TEXTUAL}
_OF_A_CAPSULE = re.compile(r"OFFSIDER_CAPSULES_(?P<name>.+)_(?P<key>[A-Z]+)")


def from_environ(
    environ: Mapping[str, str], capsules: Collection[str] = (), *, for_worker: bool = False
) -> Iterator[Assignment]:
    """One assignment for each setting that the environment speaks of.

    Args:
        environ: the environment.
        for_worker: whether variables that speak to workers alone count.
        capsules: the names of those there are, for variables such as ``OFFSIDER_CAPSULES_EXPORTS_CONCURRENCY``.
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
        # Variables have neither small letters nor "-" and ".", which names of capsules may have.
        known = (name for name in capsules if re.sub(r"[-.]", "_", name).upper() == match["name"].upper())
        name = next(known, match["name"].lower())
        yield Assignment(f"{CAPSULES}.{name}", setting.key, setting.kind.parse(value), variable)


def from_platform(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """What the platform suggests, below every file.

    Heroku's log has time stamps already. ``RAILS_MAX_THREADS`` is the number of threads where web and worker
    processes, of Rails or beside it, are set up alike; Sidekiq takes it for its default too.
    """
    if "DYNO" in environ:
        yield Assignment("log", "format", "without_timestamp", "DYNO")
    if threads := environ.get("RAILS_MAX_THREADS"):
        concurrency = by_name()["worker.concurrency"]
        yield Assignment(concurrency.section, concurrency.key, concurrency.kind.parse(threads), "RAILS_MAX_THREADS")


def environment_name(environ: Mapping[str, str]) -> str | None:
    """The environment by the variables of ``worker.environment``; None when none of them is set."""
    variables = by_name()["worker.environment"].variables
    return next((environ[name] for name in variables if environ.get(name)), None)


def odd_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A warning for each variable that looks like a misspelt setting.

    Not an error: container platforms put variables like ``OFFSIDER_REDIS_PORT`` there for a service of that name.
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
    """``REDIS_PROVIDER`` holds the name of the variable that holds the URL, as add-ons of platforms have it."""
    if "://" in name:
        raise ConfigurationError("REDIS_PROVIDER holds the name of a variable, not a URL; put the URL into REDIS_URL")
    if not environ.get(name):
        raise ConfigurationError(f"REDIS_PROVIDER names the variable {name}, which is not set")
    return Assignment(setting.section, setting.key, environ[name], name)
