"""``offsider version``."""

from __future__ import annotations

import platform

import click

from offsider import __version__


@click.command
def version() -> None:
    """Show the versions of offsider and of Python."""
    click.echo(f"offsider {__version__} (Python {platform.python_version()})")
