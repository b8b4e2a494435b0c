"""Settings from environment variables: which variable sets which setting, and their precedence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from offsider.config.files import Assignment
from offsider.config.job_defaults import TEXTUAL, from_text
from offsider.config.settings import JOBS, PREFIX, CapsuleSection, Setting, by_name, declared_in, every_setting
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import nearest

DEFAULT_ENVIRONMENT = "development"
#: Set by ``manage.py offsider`` of a Django project with ``DEBUG``.
RELOAD_BY_DEFAULT = "DJANGO_OFFSIDER_RELOAD"
# Read elsewhere: the path of the embedded server's program, and the password of the web pages.
FOREIGN = frozenset({"OFFSIDER_VALKEY_SERVER", "OFFSIDER_WEB_USER", "OFFSIDER_WEB_PASSWORD"})
_OPTION = {f"{PREFIX}JOBS_{option.upper()}": option for option in TEXTUAL}
_KNOWN = frozenset(variable for setting in every_setting() for variable in setting.variables) | frozenset(_OPTION)
# Names that earlier releases read. A process that ignored one could push to another server or serve other queues.
_FORMER = {
    variable: setting.variables[0]
    for name, setting in by_name().items()
    if (variable := f"{PREFIX}{name.replace('.', '_')}".upper()) not in _KNOWN
}
_OF_A_CAPSULE = re.compile(f"{PREFIX}CAPSULES_.+_({'|'.join(declared_in(CapsuleSection)).upper()})")


def from_environ(environ: Mapping[str, str], *, for_worker: bool = False) -> Iterator[Assignment]:
    """Return one assignment for each setting that an environment variable sets.

    Args:
        environ: the environment.
        for_worker: whether to read the shard. Web processes and other commands may run with a worker's environment.

    Raises:
        ConfigurationError: a variable has a name that only earlier releases read.
    """
    for variable in sorted(environ):
        if variable in _FORMER:
            raise ConfigurationError(
                f"the environment variable {variable} is not read: set {_FORMER[variable]} instead"
            )
        if _OF_A_CAPSULE.fullmatch(variable):
            raise ConfigurationError(
                f"the environment variable {variable} is not read: rename it, and write ${{NEW_NAME}} in the table of "
                "the capsule"
            )
    for setting in every_setting():
        if for_worker or setting.path != "worker.shard":
            yield from _of_setting(setting, environ)
    for variable, option in _OPTION.items():
        if variable in environ:
            yield Assignment(JOBS, option, from_text(option, environ[variable]), variable)


def _of_setting(setting: Setting, environ: Mapping[str, str]) -> Iterator[Assignment]:
    for variable in setting.variables:
        value = environ.get(variable)
        # Other programs set their variables to nothing to unset them.
        if value is None or (value == "" and not variable.startswith(PREFIX)):
            continue
        if variable == "REDIS_PROVIDER":
            yield _provided(setting, value, environ)
        else:
            yield Assignment(setting.section, setting.key, setting.kind.parse(value), variable)
        return


def from_platform(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Return the defaults of the platform, which every file overrides.

    Heroku's log already has timestamps. ``RAILS_MAX_THREADS`` is the number of threads on platforms that configure web
    and worker processes alike, with Rails or beside it; Sidekiq uses it as its default too.
    """
    if "DYNO" in environ:
        yield Assignment("log", "format", "without_timestamp", "DYNO")
    if environ.get(RELOAD_BY_DEFAULT):
        yield Assignment("worker", "reload", True, RELOAD_BY_DEFAULT)  # a value of a setting
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
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in _KNOWN | FOREIGN:
            match = nearest(variable, _KNOWN)
            if match:
                yield f"the environment variable {variable} sets nothing; did you mean {match}?"


def _provided(setting: Setting, name: str, environ: Mapping[str, str]) -> Assignment:
    """Resolve ``REDIS_PROVIDER``: the name of the variable with the URL, as add-ons of platforms set it."""
    if "://" in name:
        raise ConfigurationError("REDIS_PROVIDER holds the name of a variable, not a URL; put the URL into REDIS_URL")
    if not environ.get(name):
        raise ConfigurationError(f"REDIS_PROVIDER names the variable {name}, which is not set")
    return Assignment(setting.section, setting.key, environ[name], name)
