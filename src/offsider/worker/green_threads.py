"""Refuse a process whose threads gevent or eventlet have replaced by green threads."""

from __future__ import annotations

import sys
from typing import Any

from offsider.core.errors import ConfigurationError

# Modules that must be unpatched, under the names of both libraries.
_NEEDED = ("threading", "thread", "_thread", "time", "socket", "select")


def refuse_green_threads() -> None:
    """Check that the standard library is not patched.

    Raises:
        ConfigurationError: it is patched.
    """
    for library, module, asks in (
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ):
        patcher: Any = sys.modules.get(module)
        if patcher is not None and any(getattr(patcher, asks)(name) for name in _NEEDED):
            raise ConfigurationError(
                f"{library} has patched this process (monkey patching), and a worker needs real threads: time limits "
                f"and heartbeats do not work with green threads. Patch only in programs that push, not in the "
                f"modules that the worker imports, and set worker.concurrency for the number of threads"
            )
