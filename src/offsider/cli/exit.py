"""End the process in time, even if threads hang."""

from __future__ import annotations

import atexit
import os
import threading
from typing import NoReturn

from offsider.cli.failure import flush_output
from offsider.logs.setup import describe, logger


def end_process(code: int, *, within_seconds: float) -> NoReturn:
    """Run the `atexit` functions, then end the process without waiting for threads that could not be interrupted.

    A plain ``sys.exit`` would wait for such threads, or finalize the interpreter while they still run.
    """
    guard = threading.Timer(within_seconds, os._exit, (code,))
    guard.daemon = True
    guard.start()
    try:
        atexit._run_exitfuncs()  # noqa: SLF001  # the interpreter would call it next
    except BaseException as error:  # noqa: BLE001  # there is no caller left to raise it to
        logger.error("a function registered with atexit failed: %s", describe(error))
    flush_output()
    os._exit(code)
