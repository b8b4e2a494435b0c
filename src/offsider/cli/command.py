"""What the commands share: options that choose a server and an application, what they load, and output.

A command returns its exit code; None is 0. It catches an OffsiderError only to continue: the program prints the
message and exits with 1.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import click

from offsider.cli.application import (
    BrokenApplication,
    folder_beside,
    has_application,
    load_application,
    load_extensions,
)
from offsider.cli.failure import give_up
from offsider.cli.text import say_json
from offsider.config.config import Config
from offsider.config.default import set_worker_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry

SETTINGS = {"help_option_names": ["-h", "--help"]}
#: Length of a printed sentence.
MAX_LETTERS = 500

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
APPLICATION = click.option(
    "-r", "--require", multiple=True, metavar="APP",
    help="The application: a module, a .py file or a folder. May be given several times.",
)  # fmt: skip
ONE_SERVER = "Server of the configuration to use; main is the server of [redis]. Default: main."
RELEASES = "Application whose extensions release what deleted jobs hold, such as locks. Default: worker.require."


@dataclass(frozen=True)
class ConnectionOptions:
    """The options ``-C``, ``-e``, ``--server`` and ``-r`` as typed. Its methods raise ConfigurationError."""

    config: str | None = None
    environment: str | None = None
    server: str | None = None
    require: tuple[str, ...] = ()

    def load(self) -> Config:
        """Load the configuration."""
        return Config.load(self.config, overrides={"environment": self.environment} if self.environment else {})

    def installation(self) -> Installation:
        """Load the configuration, and select the server."""
        return Installation.of(self.load(), self.server or "")

    def load_application(self) -> Config:
        """Load the configuration, and the application of ``-r`` or else of ``worker.require``."""
        config = self.load()
        load_application(self.require or config.worker.require, config)
        return config

    def load_extensions(self) -> tuple[Config, BrokenApplication | None]:
        """Do the same for the extensions of the application; see `application.load_extensions`."""
        config = self.load()
        return config, load_extensions(self.require, config)

    def load_declarations(self) -> Config:
        """Load the application, check its jobs, and return the configuration.

        Raises:
            ConfigurationError: a setting or the application is invalid.
            InvalidOptions: an option of a job is invalid.
        """
        overrides: dict[str, object] = {"environment": self.environment} if self.environment else {}
        if self.require:
            overrides["require"] = self.require
        config = Config.load(self.config, beside=folder_beside(self.require), overrides=overrides)
        if not has_application(config):
            raise ConfigurationError("no application given: -r MODULE (a module, a .py file or a folder)")
        set_worker_config(config)
        load_application(config.worker.require, config)
        config.check_rules()
        registry.check_all(config)
        return config


CONNECTION = (
    click.option("-C", "--config", metavar="FILE", help="Configuration file, which contains the Redis URL."),
    click.option("-e", "--environment", metavar="NAME", help="Environment in the configuration file to apply."),
)


def connected(server: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``-C`` and ``-e`` to a command, which receives their values and the value of ``-r`` as a `ConnectionOptions`.

    Args:
        server: the help of the option ``--server``; empty for a command without it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(
            config: str | None = None,
            environment: str | None = None,
            server: str | None = None,
            require: tuple[str, ...] = (),
            **given: Any,
        ) -> Any:
            return function(ConnectionOptions(config, environment, server, require), **given)

        options = [*CONNECTION, click.option("--server", metavar="NAME", help=server)]
        for option in reversed(options if server else CONNECTION):
            run = option(run)
        return run

    return decorate


def require(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # noqa: A002  # click's word
    """Add ``-r``."""
    return click.option("-r", "--require", metavar="MODULE", multiple=True, help=help)


def print_json(data: object) -> None:
    """Print values of JSON, and dataclasses."""
    say_json(json.dumps(data, indent=2, default=asdict))


def asks() -> bool:
    """Whether a terminal is attached for a confirmation."""
    return sys.stdin.isatty()


def report_failed_servers(failures: Mapping[str, Exception], what: str) -> int:
    """Print the servers that ``what``, such as "cannot read the queues of", applies to, and return the exit code."""
    for server, why in failures.items():
        give_up(f"{what} {server}: {why}")
    return 1 if failures else 0
