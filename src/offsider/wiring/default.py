"""The configuration of a process that pushes jobs without making one itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsider.wiring.config import Config

Configure = TypeVar("Configure", bound=Callable[[Config], object])

_lock = threading.RLock()
_default: Config | None = None
_worker: Config | None = None


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


def set_worker_config(config: Config) -> None:
    """Make the configuration of a worker the default of its process, whose clients it then configures as well."""
    global _worker  # noqa: PLW0603  # the one default of the process, and whether it is a worker's
    with _lock:
        set_default_config(config)
        _worker = config


def is_of_worker(config: Config) -> bool:
    """Whether ``config`` is that of the worker of this process."""
    return config is _worker


def configure_client(function: Configure) -> Configure:
    """Call ``function(config)`` with the default configuration now; also usable as a decorator.

    For web processes and scripts that push jobs: set ``config.redis.url``, add client middleware.

    In a worker's process nothing is called: ``configure(config)`` of the application has the word there. So one
    module may have both, and one function may be both.
    """
    with _lock:
        config = default_config()
        is_worker = is_of_worker(config)
    if not is_worker:
        function(config)
    return function
