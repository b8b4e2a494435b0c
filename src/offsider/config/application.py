"""The web application of this process. Its settings apply to every loaded configuration.

1. An integration sets it (Flask), or ``DJANGO_SETTINGS_MODULE`` names it (Django).
2. `Config.load` reads its settings.
3. Its function `configure` runs for the default configuration, and for a command's configuration once the command has
   loaded the application.
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
        origin: source of the settings, for error messages.
        settings: as in a configuration file, ``{"redis": {"url": …}}``. They override the file; environment
            variables override them.
        configure: function that imports the rest of the application and adds middleware to a `Config`.
        replaces_file: use the settings instead of a configuration file, unless the user passes one. They may contain
            ``environments``.
    """

    origin: str
    settings: Mapping[str, Any]
    configure: Callable[[Any], object]
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
# Django: the application is a project, configured by the dict ``OFFSIDER`` in its settings.
#
# Import only the settings, not the apps: the parent reads the configuration before it forks, and each worker imports
# the apps itself.

VARIABLE = "DJANGO_SETTINGS_MODULE"
TABLE = "OFFSIDER"
#: The Django app, and its module that configures a process.
APP = "offsider.django"
APPLICATION = "offsider.django.application"
#: Keys of the dict that only the Django app reads.
APP_ONLY_KEYS = frozenset({"configure", "outbox"})


def django_project(environ: Mapping[str, str]) -> Application | None:
    """Return the Django project; None if there is none, or if ``offsider.django`` is not in ``INSTALLED_APPS``.

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
    tree = {key: value for key, value in cast("dict[str, object]", table).items() if key not in APP_ONLY_KEYS}
    return Application(f"{name}.{TABLE}", tree, _configure, replaces_file=True)


def _configure(config: object) -> None:
    import_module(APPLICATION).configure(config)


def _settings(name: str) -> Any:
    if str(Path.cwd()) not in sys.path:  # manage.py does the same; the program `offsider` does not
        sys.path.insert(0, str(Path.cwd()))
    from django.conf import settings

    try:
        settings.INSTALLED_APPS  # noqa: B018  # the first attribute imports the module
    except Exception as error:
        raise ConfigurationError(f"{VARIABLE}={name} cannot be imported: {type(error).__name__}: {error}") from error
    return settings
