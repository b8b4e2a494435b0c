"""The process of a worker: its fork from the parent or the fork server, its program if it is executed, and its life."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from offsider.cli import boot_signals
from offsider.cli.failure import flush_output, give_up
from offsider.cli.start_folder import leave_removed_folder
from offsider.core.errors import OffsiderError
from offsider.worker.alive.parent_link import ParentLink

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config

# systemd accepts notifications of the parent only.
OF_THE_PARENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: The descriptor of the link of an executed worker.
VARIABLE = "OFFSIDER_EXECUTED_WORKER"


def fork(release: Callable[[], None]) -> int:
    """Fork this process; in the child call ``release`` while signals are blocked, and end on TERM and INT from then on.

    Without the block, Python's own handler of INT would raise in a hook of the fork.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        pid = os.fork()
        if pid == 0:
            release()
            boot_signals.install()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def live(options: WorkerOptions, end: socket.socket, preloaded: Config | None = None) -> NoReturn:
    """Run a worker in this process, to its end.

    Args:
        end: the socket of the worker's end of the link.
        preloaded: the configuration of the application that this process has inherited; None to load it.
    """
    from offsider.cli.run_worker import run_worker  # the parent would keep it in memory

    try:
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
