"""The web application of this process: its settings apply to every configuration that is loaded.

1. An extension such as that of Flask sets it, or the environment names it: the settings module of a Django project.
2. `Config.load` reads its settings.
3. Its code configures the default configuration, and the one of a command, when that loads the application.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from offsider.core.errors import ConfigurationError


@dataclass(frozen=True)
class Application:
    """A web application.

    Attributes:
        origin: the place of its settings, for messages.
        settings: as in a configuration file, ``{"redis": {"url": …}}``; stronger than the file, weaker than the
            environment.
        configure: imports the rest of the application and adds middleware to a `Config`.
        command: the command that starts the commands of offsider with this application.
        replaces_file: the settings replace the configuration file, unless one is named; they may have
            ``environments``.
    """

    origin: str
    settings: Mapping[str, Any]
    configure: Callable[[Any], object]
    command: tuple[str, ...] = (sys.executable, "-m", "offsider")
    replaces_file: bool = False


_application: Application | None = None


def application() -> Application | None:
    """Return the application of this process, if any."""
    return _application


def set_application(app: Application | None) -> Application | None:
    """Set the application of this process and return the previous one. See `default.use_application`."""
    global _application  # one per process
    previous, _application = _application, app
    return previous


# ----------------------------------------------------------------------------------------------------
# A Django project as the application of the process: the table ``OFFSIDER`` of its settings, and its app.
#
# Only the settings are imported, not the applications: a supervisor reads the configuration before it forks, and each
# worker imports the applications itself.

VARIABLE = "DJANGO_SETTINGS_MODULE"
TABLE = "OFFSIDER"
#: The Django app, and its module that configures a process.
APP = "offsider.django"
APPLICATION = "offsider.django.application"
#: Keys of the table that only the app reads.
OF_THE_APP = frozenset({"configure", "outbox"})


def django_project(environ: Mapping[str, str]) -> Application | None:
    """Return the project; None without one, or if the app is not in its ``INSTALLED_APPS``.

    Raises:
        ConfigurationError: the settings cannot be imported, or the table is not a dict.
    """
    name = environ.get(VARIABLE)
    if not name or find_spec("django") is None:
        return None
    settings = _settings(name)
    if not any(app == APP or app.startswith(f"{APP}.") for app in settings.INSTALLED_APPS):
        return None
    table: object = getattr(settings, TABLE, {})
    if not isinstance(table, dict):
        raise ConfigurationError(f"{name}: {TABLE} must be a dict of settings, got {table!r}")
    tree = {key: value for key, value in cast("dict[str, object]", table).items() if key not in OF_THE_APP}
    return Application(f"{name}.{TABLE}", tree, _configure, replaces_file=True)


def _configure(config: object) -> None:
    import_module(APPLICATION).configure(config)


def _settings(name: str) -> Any:
    if str(Path.cwd()) not in sys.path:  # as manage.py has it; the program `offsider` does not
        sys.path.insert(0, str(Path.cwd()))
    from django.conf import settings

    try:
        settings.INSTALLED_APPS  # noqa: B018  # the first attribute imports the module
    except Exception as error:
        raise ConfigurationError(f"{VARIABLE}={name} cannot be imported: {type(error).__name__}: {error}") from error
    return settings
