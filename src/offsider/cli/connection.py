"""Which server a word of the command line looks at: the options for it, and the configuration they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from offsider.wiring.config import Config

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"]}


def connection_options(function: Function) -> Function:
    """Add ``-C`` and ``-e`` to a click command, as ``config`` and ``environment``."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


OPTIONS = (
    click.option("-C", "--config", metavar="FILE", help="The configuration file, which says where Redis is."),
    click.option("-e", "--environment", metavar="NAME", help="Which of the file's environments applies."),
)


SERVER = click.option(
    "--server", metavar="NAME", help="Which of the configuration's servers: main is that of [redis]. Default: main."
)


def load(config: str | None, environment: str | None, server: str | None = None) -> Config:
    """The configuration that the options lead to, looking at one server. Raises ConfigurationError."""
    loaded = Config.load(config, overrides={"environment": environment} if environment else {})
    return loaded.for_server(server) if server else loaded
