"""Replace the supervisor by a new program in the same process (exec), and keep its workers.

1. Block the handled signals, so that none is lost during the exec.
2. Store the workers and the file descriptors of their parent links in an environment variable.
3. Execute the same command line again. The process keeps its ID, and the workers are still its children.
4. The next supervisor removes the variable and adopts the workers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.failure import flush_output
from offsider.cli.signals import NAMES
from offsider.cli.supervisor.parent_link import ParentLink
from offsider.logs.setup import describe, logger

if TYPE_CHECKING:
    from offsider.cli.supervisor.fork import Child, Forker

VARIABLE = "OFFSIDER_SUCCESSION"
HELD = frozenset(signal.Signals[f"SIG{name}"] for name in (*NAMES, "CHLD") if hasattr(signal, f"SIG{name}"))


def exec_supervisor(children: Iterable[Child]) -> NoReturn:
    """Execute this program again; the next supervisor adopts ``children``.

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
    os.environ[VARIABLE] = json.dumps(left)
    flush_output()
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # this program itself
    finally:
        os.environ.pop(VARIABLE, None)
        unblock_signals()


def unblock_signals() -> None:
    """Unblock the signals that `exec_supervisor` blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


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
