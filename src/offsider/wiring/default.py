"""The configuration of a process that pushes jobs without making one itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsider.wiring.config import Config

Configure = TypeVar("Configure", bound=Callable[[Config], object])

_lock = threading.RLock()
_default: Config | None = None


def default_config() -> Config:
    """The process's configuration: what `set_default_config` set, else read from files and the environment once.

    Raises:
        ConfigurationError: a file or a variable is wrong.
    """
    global _default  # noqa: PLW0603  # the one default of the process
    with _lock:
        if _default is None:
            _default = Config.load()
        return _default


def set_default_config(config: Config | None) -> Config | None:
    """Make ``config`` the process's default, and answer what was; None means: read it anew when next asked for."""
    global _default  # the one default of the process
    with _lock:
        previous, _default = _default, config
        return previous


def configure_client(function: Configure) -> Configure:
    """Call ``function(config)`` with the default configuration now; also usable as a decorator.

    For web processes and scripts that push jobs: set ``config.redis.url``, add client middleware.
    """
    function(default_config())
    return function
