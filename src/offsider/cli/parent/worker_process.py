"""The process of a worker: its program if it is executed, and its life; also pauses between the starts of processes."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.failure import flush_output, give_up
from offsider.cli.start import leave_removed_folder
from offsider.core.errors import OffsiderError
from offsider.worker.alive.parent_link import ParentLink

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config

# systemd accepts notifications of the parent only.
OF_THE_PARENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: The descriptor of the link of an executed worker.
VARIABLE = "OFFSIDER_EXECUTED_WORKER"
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
# A process that ran at least this long was healthy: its next restart is immediate again.
HEALTHY_SECONDS = 60.0


def live(options: WorkerOptions, end: socket.socket, preloaded: Config | None = None) -> NoReturn:
    """Run a worker in this process, to its end.

    Args:
        end: the socket of the worker's end of the link.
        preloaded: the configuration of the application that this process has inherited; None to load it.
    """
    try:
        from offsider.cli.run_worker import run_worker  # the parent would keep it in memory

        leave_removed_folder()
        for name in (*OF_THE_PARENT, VARIABLE):
            os.environ.pop(name, None)
        if preloaded is not None:
            preloaded.random.seed()
        code = run_worker(options, ParentLink(end), preloaded)
    except OffsiderError as error:
        code = give_up(str(error), error, verbose=options.verbose)
    except KeyboardInterrupt:  # a second Ctrl-C, while the boot ends after the first one
        code = 0
    except BaseException:  # noqa: BLE001  # it must not reach the parent's code, which called this
        traceback.print_exc()
        code = 1
    flush_output()
    os._exit(code)


def executed(options: WorkerOptions) -> None:
    """Run the worker that `Starter` has executed in this process; return if this is another process."""
    descriptor = os.environ.get(VARIABLE, "")
    if descriptor:
        end = socket.socket(fileno=int(descriptor))
        end.set_inheritable(False)
        live(options, end)


def command() -> list[str]:
    """Return the command line of this process, with the interpreter of the new release."""
    program, *words = sys.orig_argv
    folder, script = Path(sys.executable).parent, Path(words[0])
    if script.name != words[0] and script.parent.is_dir() and os.path.samefile(script.parent, folder):  # noqa: PTH121
        return words  # a console script beside its interpreter, whose path is in the first line of the script
    return [program if os.sep in program and os.access(program, os.X_OK) else sys.executable, *words]


@dataclass
class Backoff:
    """The pauses between the starts of one worker slot, or of the fork server."""

    _next_seconds: float = 0.0

    def pause_seconds(self, lived_seconds: float) -> float:
        """Return the pause before the next start, after a run of `lived_seconds`."""
        if lived_seconds >= HEALTHY_SECONDS:
            self._next_seconds = 0.0
        pause = self._next_seconds
        self._next_seconds = min(MAX_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, 2 * pause))
        return pause
