"""Command-line options that choose a server, and the configuration for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from offsider.config.config import Config
from offsider.config.installation import Installation

Function = TypeVar("Function", bound=Callable[..., Any])

SETTINGS = {"help_option_names": ["-h", "--help"]}


def connection_options(function: Function) -> Function:
    """Add ``-C`` and ``-e`` to a click command, as ``config`` and ``environment``."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


OPTIONS = (
    click.option("-C", "--config", metavar="FILE", help="Configuration file, which contains the Redis URL."),
    click.option("-e", "--environment", metavar="NAME", help="Environment in the configuration file to apply."),
)


SERVER = click.option(
    "--server", metavar="NAME", help="Server of the configuration to use; main is the server of [redis]. Default: main."
)


def load(config: str | None, environment: str | None) -> Config:
    """Load the configuration that the options select. Raises ConfigurationError."""
    return Config.load(config, overrides={"environment": environment} if environment else {})


def load_server(config: str | None, environment: str | None, server: str | None = None) -> Installation:
    """Load it and select one of its servers. Raises ConfigurationError."""
    return Installation.of(load(config, environment), server or "")
