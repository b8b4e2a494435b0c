"""Objects that an owner shares between all callers, one of each type, made at first use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Shared:
    """At most one object of each type. All threads get the same one.

    An attribute of its owner, not a global table: shared objects often refer to the owner, so that both are freed
    together.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a factory may ask for another type
        self._objects: dict[type, Any] = {}  # an object of each type; not `object`, because a cast costs a call

    def get(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the object of this type; make it if there is none."""
        found: T | None = self._objects.get(kind)
        if found is None:
            with self._lock:
                found = self._objects.get(kind)
                if found is None:
                    found = self._objects[kind] = make()
        return found

    def peek(self, kind: type[T]) -> T | None:
        """Return the object of this type, or None."""
        return self._objects.get(kind)
