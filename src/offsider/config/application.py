"""The web application of this process: its settings apply to every configuration that is loaded.

1. An extension such as that of Flask sets it, or the environment names it: the settings module of a Django project.
2. `Config.load` reads its settings.
3. Its code configures the default configuration, and the one of a command, when that loads the application.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


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
