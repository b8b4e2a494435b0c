"""Replace the supervisor by a new program in the same process (exec), and keep its workers.

1. Run the command line with ``--dry-run`` in the folder that ``$PWD`` names now. If the folder, the interpreter, the
   configuration or the application is broken, keep the old workers.
2. Block the handled signals, so that none is lost during the exec; the next program unblocks them.
3. Store the workers and the file descriptors of their parent links in an environment variable.
4. Execute the same command line again. The process keeps its ID, and the workers are still its children.
5. The next supervisor removes the variable and adopts the workers.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from offsider.cli.command import MAX_LETTERS
from offsider.cli.failure import flush_output
from offsider.cli.signals import NAMES, handled
from offsider.cli.start_folder import start_folder
from offsider.cli.supervisor.children import described
from offsider.cli.supervisor.parent_link import ParentLink
from offsider.cli.text import plain
from offsider.core.error_text import describe
from offsider.logs.setup import logger

if TYPE_CHECKING:
    from offsider.cli.supervisor.fork import Child, Forker

VARIABLE = "OFFSIDER_SUCCESSION"
# Maximum time for the check: code that hangs at import would hang the new workers too.
CHECK_SECONDS = 60.0
HELD = frozenset(handled((*NAMES, "CHLD")))


class Restart:
    """The program that replaces this one, in the folder in which this one started."""

    def __init__(self) -> None:
        self.folder = start_folder()
        if self.folder != os.environ.get("PWD") and os.getpid() != 1:  # a container is replaced, not deployed into
            logger.warning("$PWD does not name the current folder: USR2 follows no symbolic link from %s", self.folder)
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
        """Kill the process that checks the new code, if there is one; the supervisor reaps it."""
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
            self._checking.returncode = 0  # the supervisor reaps all its children
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
        """Execute the program again; the next supervisor adopts ``children``.

        Raises:
            OSError: the program cannot be executed; the current supervisor can continue.
        """
        left = [
            {
                "place": child.slot,
                "pid": child.pid,
                "parent_link": child.parent_link.bequeath(),
                "stop_seconds": child.parent_link.stop_seconds,
                "born_at": child.born_at,
            }
            for child in children
        ]
        os.chdir(self.folder)
        os.environ[VARIABLE] = json.dumps(left)
        flush_output()
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            os.execv(self._words[0], self._words)  # noqa: S606  # this program itself
        finally:
            os.environ.pop(VARIABLE, None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def command() -> list[str]:
    """Return the command line of this process, with the interpreter of the new release."""
    program, *words = sys.orig_argv
    folder, script = Path(sys.executable).parent, Path(words[0])
    if script.name != words[0] and script.parent.is_dir() and os.path.samefile(script.parent, folder):  # noqa: PTH121
        return words  # a console script beside its interpreter, whose path is in the first line of the script
    return [program if os.sep in program and os.access(program, os.X_OK) else sys.executable, *words]


def inherited(forker: Forker, environ: MutableMapping[str, str]) -> Iterator[Child]:
    """Yield the workers of the previous supervisor; none if this is the first one."""
    text = environ.pop(VARIABLE, "")
    if not text:
        return
    try:
        left = json.loads(text)
        for item in left:
            parent_link = ParentLink.inherit(item["parent_link"], item["stop_seconds"])
            yield forker.adopt(item["place"], item["pid"], parent_link, item["born_at"])
    except (ValueError, TypeError, KeyError, OSError) as error:
        logger.error("cannot adopt the workers of the previous supervisor: %s", describe(error))
