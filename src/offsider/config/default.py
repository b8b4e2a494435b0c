"""The default configuration of a process, for code that pushes jobs without its own `Config`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsider.config.application import Application, set_application
from offsider.config.config import Config
from offsider.logs.setup import logger

Configure = TypeVar("Configure", bound=Callable[[Config], object])

_lock = threading.RLock()
_default: Config | None = None
#: The default configuration, once the application has configured it: read without the lock, by each push.
_ready: Config | None = None
_worker: Config | None = None


def default_config() -> Config:
    """Return the default configuration: set by `set_default_config`, or loaded once from files and the environment.

    The web application, if any, configures it.

    Raises:
        ConfigurationError: a file or a variable is invalid.
    """
    global _default, _ready  # noqa: PLW0603  # one per process
    ready = _ready
    if ready is not None:
        return ready
    with _lock:
        if _default is None:
            _default = Config.load()  # already now, for `configure_client` in a module that the application imports
            try:
                _configure_by_application(_default)
            except BaseException:
                _default = _ready = None
                raise
            _ready = _default
        return _default


def application_config() -> Config:
    """Return a new configuration, as this process configured its default one: for the workers of tests.

    It has the settings of files and the environment, and the code of the web application and of all functions that
    `configure_client` has called with the default one.

    Raises:
        ConfigurationError: a file or a variable is invalid.
    """
    with _lock:
        default_config()
        made = Config.load()
        _configure_by_application(made)
        configure_as_default(made)
    return made


def _configure(config: Config, function: Callable[[Config], object]) -> None:
    function(config)
    config.configured_by.append(function)


def _configure_by_application(config: Config) -> None:
    if config.application is not None:
        config.application.configure(config)


def set_default_config(config: Config | None) -> Config | None:
    """Set the default configuration and return the previous one; None makes the next use load it again."""
    global _default, _ready  # noqa: PLW0603  # one per process
    with _lock:
        previous, _default = _default, config
        _ready = config
        return previous


def set_worker_config(config: Config) -> None:
    """Make a worker's configuration the default of its process, so that it applies to the clients there too."""
    global _worker  # noqa: PLW0603  # one per process
    with _lock:
        configure_as_default(config)
        set_default_config(config)
        _worker = config


def configure_as_default(config: Config) -> None:
    """Call the functions that `configure_client` has called with the default configuration, and not with this one."""
    with _lock:
        for function in () if _default is None else tuple(_default.configured_by):
            if function not in config.configured_by:
                _configure(config, function)


def is_of_worker(config: Config) -> bool:
    """Return whether ``config`` belongs to the worker of this process."""
    return config is _worker


def use_application(app: Application) -> None:
    """Make ``app`` the web application of this process, and apply it to the default configuration.

    A worker's configuration gets only the code: its settings were read before.

    Raises:
        ConfigurationError: a setting is invalid.
    """
    global _ready  # noqa: PLW0603  # one per process
    with _lock:
        set_application(app)
        _ready = None  # pushes of other threads wait until the application has configured it
        try:
            if _default is None:
                default_config()
            elif is_of_worker(_default):
                app.configure(_default)
            else:
                _default.adopt(app)
        finally:
            _ready = _default


def configure_client(function: Configure) -> Configure:
    """Call ``function(config)`` with the configuration of this process; also usable as a decorator.

    ::

        @configure_client
        def set_up(config: Config) -> None:
            config.use(Unique())

    The name of the function does not matter. It configures every process that imports its module: web processes,
    scripts, and the workers and commands that load the application.
    """
    config = default_config()
    if config.frozen:
        logger.warning(
            "%s.%s(config) is not called, because its module was imported after the worker had started: import it "
            "earlier; `offsider worker` imports the modules that -r names",
            function.__module__,
            function.__qualname__,
        )
        return function
    _configure(config, function)
    return function
