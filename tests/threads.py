"""The threads of offsider that are alive in this process, and threads that hammer at it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Threads that do nothing by themselves, and end with the object or the process that they work for.
IDLE_UNTIL_ASKED = ("offsider-web", "offsider-log", "offsider-dependencies", "offsider-pushes", "offsider-loop")


def our_threads() -> set[threading.Thread]:
    """All but those that only wait for work: the pools of pages that an earlier test has asked, for example."""
    ours = (thread for thread in threading.enumerate() if thread.name.startswith("offsider-"))
    return {thread for thread in ours if not thread.name.startswith(IDLE_UNTIL_ASKED)}


def names_of_threads() -> list[str]:
    """Their names, sorted."""
    return sorted(thread.name for thread in our_threads())


def together(*calls: Callable[[], object]) -> None:
    """Make these calls at the same time, each in a thread of its own, and wait for their ends."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def hammering(*questions: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Ask each question repeatedly in its own thread, with the shortest switch interval.

    Yields the errors raised up to now; a thread ends with its first error.
    """
    errors: list[BaseException] = []
    over = threading.Event()

    def ask(question: Callable[[], object]) -> None:
        try:
            while not over.is_set():
                question()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(question,), daemon=True) for question in questions]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        yield errors
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
        sys.setswitchinterval(interval)
