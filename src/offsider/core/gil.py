"""The global interpreter lock (GIL) of a free-threaded CPython.

Such a build starts without the GIL, and turns it on for the rest of the process when it imports an extension module
that does not declare that it works without: https://docs.python.org/3/howto/free-threading-python.html
"""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

logger = logging.getLogger("offsider")

# Not `sysconfig.get_config_var("Py_GIL_DISABLED")`, which takes half a megabyte.
FREE_THREADED = "t" in getattr(sys, "abiflags", "")
_WARNING = "The global interpreter lock (GIL) has been enabled to load module '"
_enabled_by: list[str] = []


def is_on() -> bool:
    """Whether the process has the GIL now; always on an ordinary build."""
    ask = getattr(sys, "_is_gil_enabled", None)
    return ask is None or bool(ask())


def state() -> str:
    """Return ``"GIL off"``, or ``"GIL on"`` and the module that turned it on if `watch` saw it; empty on an ordinary
    build.
    """
    if not FREE_THREADED:
        return ""
    if not is_on():
        return "GIL off"
    return f"GIL on, because of {_enabled_by[0]}" if _enabled_by else "GIL on"


def watch() -> None:
    """Note and log which module turns the GIL on from now on, also during a job: CPython names it in a warning."""
    if not FREE_THREADED:
        return
    show = warnings.showwarning

    def note(message: Warning | str, *place: Any) -> None:
        text = str(message)
        if text.startswith(_WARNING):
            module = text.removeprefix(_WARNING).partition("'")[0]
            _enabled_by.append(module)
            logger.warning("the import of %s turned the GIL on: all threads share one core now", module)
        else:
            show(message, *place)

    warnings.showwarning = note  # type: ignore[assignment]  # it passes all arguments on


def keep_off(module: str) -> None:
    """Hide an optional module that would turn the GIL on. With ``PYTHON_GIL=0``, nothing turns it on."""
    if not is_on() and getattr(sys.flags, "gil", None) != 0:
        sys.modules.setdefault(module, None)  # type: ignore[arg-type]  # importing it raises ImportError
