"""Replace the parent by a new program in the same process (exec), and keep its workers.

1. Run the command line with ``--dry-run`` in the folder that ``$PWD`` names now. If the folder, the interpreter, the
   configuration or the application is broken, keep the old workers.
2. Block the handled signals, so that none is lost during the exec; the next program unblocks them.
3. Write the workers, the file descriptors of their links and their last reports into a file without a name.
4. Execute the same command line again. The process keeps its ID, and the workers are still its children.
5. The next parent reads the file and adopts the workers. If it cannot, it closes their links, so that they stop.
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
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

from offsider.cli.command import MAX_LETTERS
from offsider.cli.failure import flush_output
from offsider.cli.parent.worker_process import command
from offsider.cli.signals import NAMES, handled
from offsider.cli.start import start_folder
from offsider.cli.text import plain
from offsider.core.error_text import describe
from offsider.core.wording import described
from offsider.logs.setup import logger
from offsider.worker.alive.parent_link import known_fields

if TYPE_CHECKING:
    from offsider.cli.parent.starting import Child

VARIABLE = "OFFSIDER_SUCCESSION"
# Maximum time for the check: code that hangs at import would hang the new workers too.
CHECK_SECONDS = 60.0
HELD = frozenset(handled((*NAMES, "CHLD")))


@dataclass(frozen=True)
class Inherited:
    """A worker of the previous program in this process, perhaps of another version.

    Attributes:
        link: a file descriptor; all versions write it, because a parent that cannot adopt the worker closes it.
    """

    slot: int
    pid: int
    link: int
    born_at: float = 0.0
    report: str = ""


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
        """Start to check the new code; a check under way is cancelled."""
        logger.info("restarting: checking the new code in %s", self.folder)
        self.cancel()
        if self.folder != os.environ.get("PWD"):
            logger.warning("$PWD does not name the current folder: USR2 follows no symbolic link from %s", self.folder)
        try:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the check
            self._checking = subprocess.Popen(  # noqa: S603  # this program itself
                [*self._words, "--dry-run"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
            )
        except OSError as error:  # the folder or the program is missing
            self._failed(str(error))
        else:
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
            self._failed(f"the check took more than {CHECK_SECONDS:g} s")

    def _failed(self, reason: str) -> None:
        logger.error("restart failed, the workers continue: %s", reason)

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

    def passed(self, status: int) -> bool:
        """Whether the new code can run, by the status of the ended check; else log the reason."""
        text = self._end()
        if status:
            # A program that cannot even import offsider ends with a traceback, whose last line is the error.
            reason = text.rpartition("offsider: ")[2] if "offsider: " in text else text.strip().rpartition("\n")[2]
            self._failed(plain(" ".join(reason.split()) or described(status), MAX_LETTERS))
        return status == 0

    def exec(self, children: Iterable[Child]) -> None:
        """Execute the program again; the next parent adopts ``children``. Returns if that fails."""
        left = [
            Inherited(child.slot, child.pid, child.link.bequeath(), child.born_at, child.link.report)
            for child in children
        ]
        flush_output()
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        try:
            with tempfile.TemporaryFile("w+") as file:
                json.dump([asdict(worker) for worker in left], file)
                file.seek(0)
                os.set_inheritable(file.fileno(), True)
                os.environ[VARIABLE] = str(file.fileno())
                os.chdir(self.folder)
                os.execv(self._words[0], self._words)  # noqa: S606  # this program itself
        except OSError as error:
            self._failed(str(error))
            for worker in left:
                os.set_inheritable(worker.link, False)
        finally:
            os.environ.pop(VARIABLE, None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def inherited(environ: MutableMapping[str, str]) -> list[Inherited]:
    """Return the workers of the previous parent; empty if this is the first one."""
    descriptor = environ.pop(VARIABLE, "")
    if not descriptor:
        return []
    workers: Any = ()
    try:
        with os.fdopen(int(descriptor)) as file:
            workers = json.load(file)
        return [known_fields(Inherited, worker) for worker in workers]
    except (ValueError, TypeError, OSError) as error:
        logger.error("cannot adopt the workers of the previous parent: %s", describe(error))
    with suppress(TypeError, KeyError, OSError):
        for worker in workers:
            os.close(worker["link"])  # so that it stops, and does not run beside the new ones
    return []
