"""The command ``offsider`` and its subcommands; each subcommand is imported when it is called."""

from __future__ import annotations

import os
import platform
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from offsider import __version__
from offsider.cli.failure import give_up
from offsider.cli.start import (
    finish_streams,
    install_boot_signals,
    leave_removed_folder,
    prepare_streams,
    uninstall_boot_signals,
)
from offsider.core.errors import OffsiderError
from offsider.core.removed import message
from offsider.core.suggestions import suggest

#: Heading -> subcommand -> module in offsider.cli that defines the click command of the same name.
GROUPS = {
    "Run": {
        "worker": "worker",
        "web": "web",
        "demo": "demo",
    },
    "Look": {
        "now": "now",
        "why": "why",
        "log": "log",
        "top": "top",
        "show": "show",
        "stats": "stats",
        "doctor": "doctor",
    },
    "Act": {
        "do": "show",
        "jobs": "jobs",
        "enqueue": "enqueue",
        "cancel": "why",
        "queues": "queues",
        "processes": "show",
        "quiet": "remote",
        "stop": "remote",
        "dump": "remote",
        "controls": "controls",
        "batches": "show",
        "limiters": "show",
        "locks": "show",
        "periodic": "periodic",
    },
    "Deploy": {
        "mark": "mark",
        "routes": "routes",
        "alerts": "alerts",
    },
}
COMMANDS = {name: module for commands in GROUPS.values() for name, module in commands.items()}

# What users of other systems write, and what to write here.
APPLICATION = "name the module of your jobs with -r (offsider worker -r app.jobs)"
OF_OTHERS = {"-A": APPLICATION, "-Q": "name each queue with -q (offsider worker -r app.jobs -q default -q mails)"}


@contextmanager
def _explaining_usage() -> Generator[None]:
    try:
        yield
    except click.NoSuchOption as error:
        if error.option_name in OF_OTHERS:
            message = f"no such option {error.option_name!r}: {OF_OTHERS[error.option_name]}"
            raise click.UsageError(message, error.ctx) from error
        raise
    except click.UsageError as error:
        if error.ctx and error.ctx.info_name == "worker" and "unexpected extra argument" in error.message:
            raise click.UsageError(f"{error.message}: {APPLICATION}", error.ctx) from error
        raise


def _refuse_removed(ctx: click.Context, args: list[str]) -> None:
    """Fail for a removed command, or for a removed option of a command."""
    words = [word for word in args if not word.startswith("-")]
    options = [word.partition("=")[0] for word in args if word.startswith("-")]
    for count in range(1, len(words) + 1):
        command = " ".join(words[:count])
        names = [message("command", command), *(message("command option", f"{command} {each}") for each in options)]
        if gone := next(filter(None, names), ""):
            ctx.fail(gone)


class LazyGroup(click.Group):
    """Imports a subcommand only when it is called, so that it does not pay for the imports of the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands below their headings."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        for heading, names in GROUPS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in found if command])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found: Any = getattr(import_module(f"offsider.cli.{module}"), cmd_name)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; the error about an unknown one names the most similar one."""
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and (hint := suggest(name, COMMANDS)):
            ctx.fail(f"no such command {name!r}{hint}")
        if name == "worker":
            # Before its imports, which take most of the boot.
            install_boot_signals()
            ctx.call_on_close(uninstall_boot_signals)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        prepare_streams()  # before anything opens a descriptor; the group can be a command of another program
        # click does not know NO_COLOR
        return super().make_context(*args, color=False if os.environ.get("NO_COLOR") else None, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _refuse_removed(ctx, args)
        with _explaining_usage():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            leave_removed_folder()
            with _explaining_usage():  # options of the subcommand
                code = super().invoke(ctx)
        except OffsiderError as error:
            code = give_up(str(error))
        finish_streams()
        # A command returns its exit code; None is 0.
        ctx.exit(code if isinstance(code, int) else 0)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    __version__, "-V", "--version", message=f"offsider %(version)s (Python {platform.python_version()})"
)
def main() -> None:
    """Background jobs for Python on Redis or Valkey, compatible with Sidekiq's data."""
