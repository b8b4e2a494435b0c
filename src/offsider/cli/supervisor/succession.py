"""A new program in the same process: what the supervisor of now leaves to the one that takes its place by exec.

1. The signals that mean something are held back, so that none is lost on the way.
2. Which workers are there, and the numbers of their tethers, go into an environment variable.
3. The same command line is executed again. It has the same process number, and the workers are still its children.
4. The next supervisor takes the variable out and adopts them.
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
from offsider.cli.supervisor.tether import Tether
from offsider.wiring.logs import describe, logger

if TYPE_CHECKING:
    from offsider.cli.supervisor.nursery import Child, Nursery

VARIABLE = "OFFSIDER_SUCCESSION"
HELD = frozenset(signal.Signals[f"SIG{name}"] for name in (*NAMES, "CHLD") if hasattr(signal, f"SIG{name}"))


def hand_over(children: Iterable[Child]) -> NoReturn:
    """Execute this program anew; the next supervisor finds ``children``.

    Raises:
        OSError: the program cannot be executed; everything is as before.
    """
    left = [
        {
            "place": child.place,
            "pid": child.pid,
            "tether": child.tether.bequeath(),
            "stop_seconds": child.tether.stop_seconds,
            "born_at": child.born_at,
        }
        for child in children
    ]
    os.environ[VARIABLE] = json.dumps(left)
    flush_output()
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # this very program
    finally:
        os.environ.pop(VARIABLE, None)
        hear()


def hear() -> None:
    """Let the signals in again that were held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def inherited(nursery: Nursery, environ: MutableMapping[str, str]) -> Iterator[Child]:
    """The workers of the supervisor before; none when this is the first."""
    text = environ.pop(VARIABLE, "")
    if not text:
        return
    try:
        left = json.loads(text)
        for item in left:
            tether = Tether.inherit(item["tether"], item["stop_seconds"])
            yield nursery.adopt(item["place"], item["pid"], tether, item["born_at"])
    except (ValueError, TypeError, KeyError, OSError) as error:
        logger.error("the workers of the supervisor before are lost to this one: %s", describe(error))
