"""``manage.py offsider worker|web|…``: the program ``offsider`` with the settings of the project."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from offsider.cli.main import main

RELOAD = "OFFSIDER_WORKER_RELOAD"
NO_RELOAD = "--noreload"


class Command(BaseCommand):
    """Passes its arguments to the program ``offsider``, which has its own help."""

    help = "Run a worker, the web UI or another command of offsider. See: manage.py offsider --help"

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the program; it ends the process."""
        words = argv[2:]
        table: dict[str, Any] = getattr(settings, "OFFSIDER", {})
        if NO_RELOAD in words:  # as runserver has it
            words = [word for word in words if word != NO_RELOAD]
            os.environ[RELOAD] = "false"
        elif settings.DEBUG and "reload" not in table and "reload" not in table.get("worker", {}):
            os.environ.setdefault(RELOAD, "true")
        # The reloader starts `python -m offsider`, which must find the settings too.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sys.path[0], os.environ.get("PYTHONPATH"))))
        main(args=words, prog_name="manage.py offsider")

    def handle(self, *_: Any, **__: Any) -> None:
        """Refuse `call_command`: the program ends the process."""
        raise CommandError("offsider runs from the command line: python manage.py offsider …")
