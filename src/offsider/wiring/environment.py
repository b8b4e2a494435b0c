"""Settings from environment variables: which variable feeds which setting, and which one wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offsider.core.errors import ConfigurationError
from offsider.wiring.nearest import nearest
from offsider.wiring.settings import Setting, by_name, every_setting
from offsider.wiring.sources import Assignment

DEFAULT_ENVIRONMENT = "development"
PREFIX = "OFFSIDER_"
# Read elsewhere: the path of the embedded server's program.
FOREIGN = frozenset({"OFFSIDER_VALKEY_SERVER"})


def from_environ(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """One assignment for each setting that the environment speaks of."""
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
    known = {variable for setting in every_setting() for variable in setting.variables}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in known | FOREIGN:
            match = nearest(variable, known)
            if match:
                yield f"the environment variable {variable} sets nothing; did you mean {match}?"


def _provided(setting: Setting, name: str, environ: Mapping[str, str]) -> Assignment:
    """``REDIS_PROVIDER`` holds the name of the variable that holds the URL, as add-ons of platforms have it."""
    if "://" in name:
        raise ConfigurationError("REDIS_PROVIDER holds the name of a variable, not a URL; put the URL into REDIS_URL")
    if not environ.get(name):
        raise ConfigurationError(f"REDIS_PROVIDER names the variable {name}, which is not set")
    return Assignment(setting.section, setting.key, environ[name], name)
