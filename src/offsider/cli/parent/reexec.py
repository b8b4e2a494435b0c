"""Replace the parent by a new program in the same process (exec), and keep its workers.

1. Run the command line with ``--dry-run`` in the folder that ``$PWD`` names now. If the folder, the interpreter, the
   configuration or the application is broken, keep the old workers.
2. Block the handled signals, so that none is lost during the exec; the next program unblocks them.
3. Write the workers, the file descriptors of their links and their last reports into a file without a name.
4. Execute the same command line again. The process keeps its ID, and the workers are still its children.
5. The next parent reads the file and adopts the workers.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, MutableMapping
from typing import IO, TYPE_CHECKING, Any, NoReturn

from offsider.cli.command import MAX_LETTERS
from offsider.cli.failure import flush_output
from offsider.cli.parent.backoff import described
from offsider.cli.parent.worker_process import command
from offsider.cli.signals import NAMES, handled
from offsider.cli.start_folder import start_folder
from offsider.cli.text import plain
from offsider.core.error_text import describe
from offsider.logs.setup import logger

if TYPE_CHECKING:
    from offsider.cli.parent.starting import Child

VARIABLE = "OFFSIDER_SUCCESSION"
# Maximum time for the check: code that hangs at import would hang the new workers too.
CHECK_SECONDS = 60.0
HELD = frozenset(handled((*NAMES, "CHLD")))


class Restart:
    """The program that replaces this one, in the folder in which this one started."""

    def __init__(self) -> None:
        self.folder = start_folder()
        self._words = command()
        self._checking: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self.due_at = math.inf

    @property
    def pid(self) -> int:
        """The process that checks the new code; 0 without one."""
        return 0 if self._checking is None else self._checking.pid

    def check(self) -> None:
        """Start to check the new code; a check under way is cancelled.

        Raises:
            OSError: the folder or the program is missing.
        """
        self.cancel()
        if self.folder != os.environ.get("PWD"):
            logger.warning("$PWD does not name the current folder: USR2 follows no symbolic link from %s", self.folder)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the check
        self._checking = subprocess.Popen(  # noqa: S603  # this program itself
            [*self._words, "--dry-run"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )
        self.due_at = time.monotonic() + CHECK_SECONDS

    def cancel(self) -> None:
        """Kill the process that checks the new code, if there is one; the parent reaps it."""
        if self._checking is not None:
            self._checking.kill()
            self._end()

    def cancel_overdue(self, now: float) -> None:
        """Cancel a check that takes too long."""
        if now >= self.due_at:
            self.cancel()
            logger.error("restart failed, the workers continue: the check took more than %g s", CHECK_SECONDS)

    def _end(self) -> str:
        text = ""
        if self._checking is not None and self._errors is not None:
            self._checking.returncode = 0  # the parent reaps all its children
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace")
            self._errors.close()
        self._checking = self._errors = None
        self.due_at = math.inf
        return text

    def failure(self, status: int) -> str:
        """Return why the new code cannot run, by the status of the ended check; empty if it can."""
        text = self._end()
        if status == 0:
            return ""
        # A program that cannot even import offsider ends with a traceback, whose last line is the error.
        reason = text.rpartition("offsider: ")[2] if "offsider: " in text else text.strip().rpartition("\n")[2]
        return plain(" ".join(reason.split()) or described(status), MAX_LETTERS)

    def exec(self, children: Iterable[Child]) -> NoReturn:
        """Execute the program again; the next parent adopts ``children``.

        Raises:
            OSError: the program cannot be executed; the current parent can continue.
        """
        left = [
            {
                "slot": child.slot,
                "pid": child.pid,
                "link": child.link.bequeath(),
                "stop_seconds": child.link.stop_seconds,
                "born_at": child.born_at,
                "report": child.link.report,
            }
            for child in children
        ]
        file = tempfile.TemporaryFile("w+")  # noqa: SIM115  # the next program reads it
        json.dump(left, file)
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        os.chdir(self.folder)
        os.environ[VARIABLE] = str(file.fileno())
        flush_output()
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            os.execv(self._words[0], self._words)  # noqa: S606  # this program itself
        finally:
            os.environ.pop(VARIABLE, None)
            file.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def inherited(environ: MutableMapping[str, str]) -> list[dict[str, Any]]:
    """Return the workers of the previous parent; empty if this is the first one."""
    descriptor = environ.pop(VARIABLE, "")
    if not descriptor:
        return []
    try:
        with os.fdopen(int(descriptor)) as file:
            left: list[dict[str, Any]] = json.load(file)
            return left
    except (ValueError, OSError) as error:
        logger.error("cannot adopt the workers of the previous parent: %s", describe(error))
        return []
