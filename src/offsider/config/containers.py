"""The containers of a configuration: lists that can be frozen, and objects that all users share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any, Generic, TypeVar, cast, overload

from offsider.core.errors import ConfigurationError

T = TypeVar("T")


class Listing(MutableSequence[T], Generic[T]):
    """A list that raises ConfigurationError for every change after `freeze`.

    Args:
        what: its name in messages, for example ``"config.death_handlers"``.
        items: the initial items.
    """

    def __init__(self, what: str, items: Iterable[T] = ()) -> None:
        self._what = what
        self._items = list(items)
        self._frozen = False

    def freeze(self) -> None:
        self._frozen = True

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]

    @overload
    def __setitem__(self, index: int, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: int | slice, value: T | Iterable[T]) -> None:
        self._check_open()
        self._items[index] = value  # type: ignore[index, assignment]  # pyright: ignore[reportCallIssue, reportArgumentType]

    def __delitem__(self, index: int | slice) -> None:
        self._check_open()
        del self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def insert(self, index: int, value: T) -> None:
        self._check_open()
        self._items.insert(index, value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Listing):
            return self._items == cast("Listing[object]", other)._items
        return self._items == other

    __hash__ = None  # type: ignore[assignment]  # a mutable list has no hash

    def __repr__(self) -> str:
        return f"Listing({self._what!r}, {self._items!r})"

    def _check_open(self) -> None:
        if self._frozen:
            raise frozen_error(self._what)


def frozen_error(what: str) -> ConfigurationError:
    """Return the error for a change after the launch."""
    return ConfigurationError(
        f"{what} is frozen: it cannot change after the worker has started; set it in a function with @configure_client"
    )


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
