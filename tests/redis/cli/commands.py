"""Runs commands in this process."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from offsider.cli.main import main


def command(*name: str) -> Callable[..., Result]:
    """Return a function that runs a command with further words, and text that is typed."""
    return lambda *words, typed=None: CliRunner().invoke(main, [*name, *words], input=typed)
