"""What the commands share: how they are made, options that choose a server and an application, and output.

A command returns its exit code; None is 0. It catches an OffsiderError only to continue: the program prints the
message and exits with 1.
"""

from __future__ import annotations

import functools
import getpass
import json
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeAlias, TypeVar

import click

from offsider.cli.application import BrokenApplication, folder_beside, has_application, load_application
from offsider.cli.failure import give_up
from offsider.cli.text import plain, say, say_json
from offsider.config.config import Config
from offsider.config.default import set_worker_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, OffsiderError, RedisFailure
from offsider.inspector.all_servers import query_all, split
from offsider.jobs import registry

T = TypeVar("T")
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

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

    def overrides(self) -> dict[str, object]:
        """Return the settings that the options override."""
        return {"environment": self.environment} if self.environment else {}

    def load(self) -> Config:
        """Load the configuration."""
        return Config.load(self.config, overrides=self.overrides())

    def installation(self) -> Installation:
        """Load the configuration, and select the server."""
        return Installation.of(self.load(), self.server or "")

    def load_application(self) -> Config:
        """Load the configuration, and the application of ``-r`` or else of ``worker.require``.

        Raises:
            BrokenApplication: the application cannot be loaded.
        """
        config = self.load()
        load_application(self.require or config.worker.require, config)
        return config

    def load_extensions(self) -> tuple[Config, BrokenApplication | None]:
        """Do the same for the extensions of the application, which for example release the locks of deleted jobs.

        Returns:
            The configuration, and the error if ``worker.require`` cannot be loaded here.
        """
        config = self.load()
        try:
            load_application(self.require or config.worker.require, config)
        except BrokenApplication as error:
            if self.require:
                raise
            return config, error
        return config, None

    def installation_with_extensions(self) -> Installation:
        """Load the extensions, select the server, and print a warning if ``worker.require`` cannot be loaded."""
        config, broken = self.load_extensions()
        installation = Installation.of(config, self.server or "")
        if broken is not None:
            say(plain(f"cannot load the application of worker.require: {broken}", MAX_LETTERS), err=True)
        return installation

    def each_server(
        self, start: Installation, ask: Callable[[Installation], T]
    ) -> tuple[dict[str, T], dict[str, RedisFailure]]:
        """Ask the server of ``--server``, or else all; return the answers, and the errors of unreachable servers."""
        return ({start.name: ask(start)}, {}) if self.server else split(query_all(start, ask))

    def load_declarations(self) -> Config:
        """Load the application, check its jobs, and return the configuration.

        Raises:
            ConfigurationError: a setting or the application is invalid.
            InvalidOptions: an option of a job is invalid.
        """
        overrides = self.overrides() | ({"require": self.require} if self.require else {})
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


def server(help: str = ONE_SERVER) -> Decorator:  # noqa: A002  # click's word
    """Return the option ``--server``."""
    return click.option("--server", metavar="NAME", help=help)


def require(help: str) -> Decorator:  # noqa: A002  # click's word
    """Return the option ``-r``."""
    return click.option("-r", "--require", metavar="APP", multiple=True, help=help)


def command(
    *options: Decorator, within: click.Group | None = None, name: str | None = None, what: str | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command, or a subcommand.

    The function receives a `ConnectionOptions` with the values of ``-C``, ``-e``, ``--server`` and ``-r``, also those
    given to the group, and then the values of the other options by name.

    Args:
        options: its options and arguments, in the order of the help.
        within: the group of a subcommand.
        name: default: the name of the function.
        what: the help; default: the docstring of the function.
    """
    make = click.command if within is None else within.command
    return lambda function: make(name, help=what)(_connected(function, options))


def group(*options: Decorator, alone: bool = True) -> Callable[[Callable[..., Any]], click.Group]:
    """Make a command with subcommands, as `command`.

    Args:
        options: its options, for its subcommands too.
        alone: whether the function runs if no subcommand is given; otherwise the program prints the help.
    """
    return lambda function: click.group(invoke_without_command=alone)(_connected(function, options))


def _connected(function: Callable[..., Any], options: Sequence[Decorator]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(**given: Any) -> Any:
        context = click.get_current_context()
        own = {field.name: given.pop(field.name) for field in fields(ConnectionOptions) if field.name in given}
        of_group = context.find_object(ConnectionOptions) or ConnectionOptions()
        connection = replace(of_group, **{name: value for name, value in own.items() if value})
        context.obj = connection
        return None if context.invoked_subcommand is not None else function(connection, **given)

    decorated: Callable[..., Any] = run
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def output(data: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print lines; or, as JSON, the data, which may contain dataclasses."""
    if as_json:
        say_json(json.dumps(data, indent=2, default=asdict))
    else:
        say(*lines)


def asks() -> bool:
    """Whether a terminal is attached for a confirmation."""
    return sys.stdin.isatty()


def myself() -> str:
    """Return ``cli user@host``, as the author of a change."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container without this user
        user = "unknown"
    return f"cli {user}@{socket.gethostname()}"


def for_each(names: Iterable[str], act: Callable[[str], int | None]) -> int:
    """Act on each, even if another one failed, and return the exit code."""
    code = 0
    for name in names:
        try:
            code |= act(name) or 0
        except OffsiderError as error:
            code = give_up(str(error))
    return code


def report_failed_servers(failures: Mapping[str, Exception], what: str) -> int:
    """Print the servers that ``what``, such as "cannot read the queues of", applies to, and return the exit code."""
    for server, why in failures.items():
        give_up(f"{what} {server}: {why}")
    return 1 if failures else 0
