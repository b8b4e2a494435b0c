"""The web application of this process: its settings and code apply to every configuration that is loaded.

A framework starts ``flask offsider worker`` with the application loaded, so the worker has the same settings.
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
        configure: called with each loaded `Config`, for middleware.
        command: the command that starts the commands of offsider with this application.
    """

    origin: str
    settings: Mapping[str, Any]
    configure: Callable[[Any], object]
    command: tuple[str, ...] = (sys.executable, "-m", "offsider")


_application: Application | None = None


def application() -> Application | None:
    """Return the application of this process, if any."""
    return _application


def set_application(app: Application | None) -> Application | None:
    """Set the application of this process and return the previous one. See `default.use_application`."""
    global _application  # one per process
    previous, _application = _application, app
    return previous
