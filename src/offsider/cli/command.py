"""What the commands share: options that choose a server and an application, and the configuration for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from offsider.cli.application import folder_beside, has_application, load_application
from offsider.config.config import Config
from offsider.config.default import set_worker_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry

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


def application_options(function: Function) -> Function:
    """Add ``-r``, ``-C`` and ``-e`` to a click command, as ``require``, ``config`` and ``environment``."""
    return REQUIRE(connection_options(function))


REQUIRE = click.option(
    "-r", "--require", multiple=True, metavar="APP",
    help="The application: a module, a .py file or a folder. May be given several times.",
)  # fmt: skip


def load_declarations(require: Sequence[str], file: str | None, environment: str | None) -> Config:
    """Load the application, check its jobs, and return the configuration.

    Raises:
        ConfigurationError: a setting or the application is invalid.
        InvalidOptions: an option of a job is invalid.
    """
    overrides: dict[str, object] = {"environment": environment} if environment else {}
    if require:
        overrides["require"] = tuple(require)
    config = Config.load(file, beside=folder_beside(require), overrides=overrides)
    if not has_application(config):
        raise ConfigurationError("no application given: -r MODULE (a module, a .py file or a folder)")
    set_worker_config(config)
    load_application(config.worker.require, config)
    config.check_rules()
    registry.check_all(config)
    return config
