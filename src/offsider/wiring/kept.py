"""What an owner keeps for everybody who asks: made at first use, one of a kind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


class Kept:
    """At most one object of each type. All threads get the same one.

    An attribute of its owner and no table beside it: what is kept often refers to the owner, and so both go together.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # what is made may ask for another kind
        self._objects: dict[type, object] = {}

    def get(self, kind: type[T], make: Callable[[], T]) -> T:
        """The object of this type, made now if there is none."""
        found = self.peek(kind)
        if found is None:
            with self._lock:
                found = self.peek(kind)
                if found is None:
                    found = self._objects[kind] = make()
        return found

    def peek(self, kind: type[T]) -> T | None:
        """The object of this type, if there is one."""
        return cast("T | None", self._objects.get(kind))
