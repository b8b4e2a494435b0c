"""The command ``offsider`` and its words; each word is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from offsider import __version__

# word -> module below offsider.cli, in which a click command has the word's name
WORDS = {
    "worker": "worker",
    "quiet": "remote",
    "stop": "remote",
    "dump": "remote",
    "top": "top",
    "stats": "stats",
    "queues": "queues",
    "switches": "switches",
    "limits": "limits",
    "jobs": "jobs",
    "routes": "routes",
    "shards": "shards",
    "migrate": "migrate",
    "doctor": "doctor",
    "mark": "mark",
    "periodic": "periodic",
    "web": "web",
    "demo": "demo",
    "version": "version",
}


class Words(click.Group):
    """Finds its commands by name, so that one word does not pay for the imports of another."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(WORDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's
        module = WORDS.get(cmd_name)
        if module is None:
            return None
        found: Any = getattr(import_module(f"offsider.cli.{module}"), cmd_name)
        return found if isinstance(found, click.Command) else None


@click.group(cls=Words, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="offsider %(version)s")
def main() -> None:
    """Background jobs for Python on Redis or Valkey, compatible with Sidekiq's data."""
