"""Read settings from environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from offsider.config.files import Assignment
from offsider.config.job_defaults import TEXTUAL, from_text
from offsider.config.settings import JOBS, PREFIX, CapsuleSection, Setting, by_name, declared_in, every_setting
from offsider.core.errors import ConfigurationError
from offsider.core.removed import SETTINGS, setting_message
from offsider.core.suggestions import nearest

DEFAULT_ENVIRONMENT = "development"
#: Set by ``manage.py offsider`` of a Django project with ``DEBUG``.
RELOAD_BY_DEFAULT = "DJANGO_OFFSIDER_RELOAD"
# Variables that other modules read: the path of the embedded server's program, and the password of the web pages.
OTHER_VARIABLES = frozenset({"OFFSIDER_VALKEY_SERVER", "OFFSIDER_WEB_USER", "OFFSIDER_WEB_PASSWORD"})
_OPTION = {f"{PREFIX}JOBS_{option.upper()}": option for option in TEXTUAL}
_KNOWN = frozenset(variable for setting in every_setting() for variable in setting.variables) | frozenset(_OPTION)
_CAPSULE_VARIABLE = re.compile(f"{PREFIX}CAPSULES_.+_({'|'.join(declared_in(CapsuleSection)).upper()})")


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
    for variable, option in _OPTION.items():
        if variable in environ:
            yield Assignment(JOBS, option, from_text(option, environ[variable]), variable)


def _assignments(setting: Setting, environ: Mapping[str, str]) -> Iterator[Assignment]:
    for variable in setting.variables:
        value = environ.get(variable)
        # Other programs unset a variable by setting it to an empty string.
        if value is None or (value == "" and not variable.startswith(PREFIX)):
            continue
        if variable == "REDIS_PROVIDER":
            yield _provided(setting, value, environ)
        else:
            yield Assignment(setting.section, setting.key, setting.kind.parse(value), variable)
        return


def from_platform(environ: Mapping[str, str]) -> Iterator[Assignment]:
    """Yield platform defaults. Any configuration file overrides them.

    ``RAILS_MAX_THREADS`` is the default concurrency, as in Sidekiq:
    platforms often set it for web and worker processes alike.
    """
    if environ.get(RELOAD_BY_DEFAULT):
        yield Assignment("worker", "reload", True, RELOAD_BY_DEFAULT)  # the setting's value
    if threads := environ.get("RAILS_MAX_THREADS"):
        concurrency = by_name()["worker.concurrency"]
        yield Assignment(concurrency.section, concurrency.key, concurrency.kind.parse(threads), "RAILS_MAX_THREADS")


def environment_name(environ: Mapping[str, str]) -> str | None:
    """Return the environment name (``OFFSIDER_ENV`` and its fallbacks), or None."""
    variables = by_name()["worker.environment"].variables
    return next((environ[name] for name in variables if environ.get(name)), None)


def misspelled_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that looks like a misspelled setting.

    Not an error: Kubernetes sets variables such as ``OFFSIDER_REDIS_PORT`` for a service named ``offsider-redis``.
    """
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in _KNOWN | OTHER_VARIABLES:
            match = nearest(variable, _KNOWN)
            if match:
                yield f"the environment variable {variable} sets nothing; did you mean {match}?"


def _provided(setting: Setting, name: str, environ: Mapping[str, str]) -> Assignment:
    """Resolve ``REDIS_PROVIDER``: it names the variable that contains the URL, as Heroku add-ons set it."""
    if "://" in name:
        raise ConfigurationError("REDIS_PROVIDER must be the name of a variable, not a URL: set REDIS_URL instead")
    if not environ.get(name):
        raise ConfigurationError(f"REDIS_PROVIDER names the variable {name}, which is not set")
    return Assignment(setting.section, setting.key, environ[name], name)
