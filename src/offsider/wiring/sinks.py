"""Where pushes go in place of Redis while a testing mode is on: a stack, one for the whole process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

# Of `client.Prepared`, which lives a floor above.
Sink: TypeAlias = Callable[[Sequence[Any]], None]

_lock = threading.Lock()
_stack: tuple[Sink | None, ...] = ()


def current() -> Sink | None:
    """Who takes pushes now; None means Redis."""
    stack = _stack
    return stack[-1] if stack else None


@contextmanager
def diverted(sink: Sink | None) -> Generator[None, None, None]:
    """Hand every push of this process to ``sink`` for the time of the block; None means Redis again."""
    global _stack  # noqa: PLW0603  # the one switch of the process
    with _lock:
        _stack = (*_stack, sink)
    try:
        yield
    finally:
        with _lock:
            # Not simply the last one: two threads may leave their blocks in any order.
            index = len(_stack) - 1 - _stack[::-1].index(sink)
            _stack = _stack[:index] + _stack[index + 1 :]
