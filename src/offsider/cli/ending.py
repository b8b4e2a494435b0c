"""The end of the process, in time whatever still hangs in it."""

from __future__ import annotations

import atexit
import os
import threading
from typing import NoReturn

from offsider.cli.failure import flush_output
from offsider.wiring.logs import describe, logger


def end_process(code: int, *, within_seconds: float) -> NoReturn:
    """Run what was registered with `atexit`, then end at once: threads that could not be interrupted are left behind.

    A plain ``sys.exit`` would wait for such threads, or tear the interpreter down below them.
    """
    guard = threading.Timer(within_seconds, os._exit, (code,))
    guard.daemon = True
    guard.start()
    try:
        atexit._run_exitfuncs()  # noqa: SLF001  # what the interpreter itself would call next
    except BaseException as error:  # noqa: BLE001  # nobody is left to raise it to
        logger.error("a function registered with atexit failed: %s", describe(error))
    flush_output()
    os._exit(code)
