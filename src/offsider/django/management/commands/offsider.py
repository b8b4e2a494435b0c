"""``manage.py offsider worker|web|…``: the program ``offsider`` with the settings of the project."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from offsider.cli.main import main
from offsider.config.loading import RELOAD_BY_DEFAULT

RELOAD = "OFFSIDER_WORKER_RELOAD"


class Command(BaseCommand):
    """Passes its arguments to the program ``offsider``, which has its own help."""

    help = "Run a worker, the web UI or another command of offsider. See: manage.py offsider --help"

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the program; it ends the process."""
        parser = ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--settings")  # manage.py has read both, but leaves them to the command
        parser.add_argument("--pythonpath")
        parser.add_argument("--noreload", action="store_true")  # as runserver has it
        of_django, words = parser.parse_known_args(argv[2:])
        if of_django.noreload:
            os.environ[RELOAD] = "false"
        elif settings.DEBUG:
            os.environ[RELOAD_BY_DEFAULT] = "true"
        main(args=words, prog_name="manage.py offsider")

    def handle(self, *_: Any, **__: Any) -> None:
        """Refuse `call_command`: the program ends the process."""
        raise CommandError("offsider runs from the command line: python manage.py offsider …")
