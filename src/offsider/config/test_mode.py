"""The process-wide stack of sinks that receive pushes instead of Redis while a testing mode is on."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from offsider.config.hooks import Prepared
from offsider.config.loading import environment_name

Sink: TypeAlias = Callable[[Sequence[Prepared]], None]
P = ParamSpec("P")
T = TypeVar("T")

_lock = threading.Lock()
#: Pushes that wait for a commit, each with its ``jids``. A rollback releases them.
waiting: WeakSet[Any] = WeakSet()
#: The databases whose commits they wait for, by callback, if ``config.after_commit`` names them.
databases: WeakKeyDictionary[Callable[[], None], list[str]] = WeakKeyDictionary()
#: The states of tracked jobs in a test mode, by jid; see `offsider.ext.results.store`.
states: dict[str, dict[str, Any]] = {}
#: The steps of workflows that wait for a job, by its jid: takes the run and the result, and returns the jobs to push.
followers: dict[str, Callable[[Any, Any], Sequence[Any]]] = {}
_stack: tuple[Sink | None, ...] = ()


def current() -> Sink | None:
    """Return the sink that receives pushes now; None means Redis."""
    stack = _stack
    return stack[-1] if stack else None


def takes(pushes: Sequence[Prepared]) -> bool:
    """Pass pushes to the sink of now; return whether there is one."""
    sink = current()
    if sink is not None:
        sink(pushes)
    return sink is not None


def bound(function: Callable[P, T]) -> Callable[P, T]:
    """Return ``function`` for a later call; its pushes go to the sink of now, if there is one."""
    sink = current()
    return function if sink is None else diverted(sink)(function)


def is_test() -> bool:
    """Whether this process looks like a test: it has loaded pytest or unittest, or its environment is ``test``."""
    return "pytest" in sys.modules or "unittest" in sys.modules or environment_name(os.environ) == "test"


def wants_advice() -> bool:
    """Whether to warn about pushes that are normal in tests."""
    return not _stack and not is_test()


@contextmanager
def diverted(sink: Sink | None) -> Generator[None, None, None]:
    """Pass every push of this process to ``sink`` inside the block; None means Redis."""
    global _stack  # noqa: PLW0603  # one per process
    with _lock:
        _stack = (*_stack, sink)
    try:
        yield
    finally:
        with _lock:
            # Not always the last one: two threads may leave their blocks in any order.
            index = len(_stack) - 1 - _stack[::-1].index(sink)
            _stack = _stack[:index] + _stack[index + 1 :]
            if not _stack:
                states.clear()
                followers.clear()
