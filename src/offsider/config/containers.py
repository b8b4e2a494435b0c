"""The containers of a configuration: lists that can be frozen, and objects that all users share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from offsider.core.errors import ConfigurationError

T = TypeVar("T")


class Freezable:
    """An object that refuses changes between `freeze` and `thaw`."""

    _frozen = False

    def freeze(self) -> None:
        """Refuse changes."""
        vars(self)["_frozen"] = True

    def thaw(self) -> None:
        """Accept changes again."""
        vars(self)["_frozen"] = False

    def check_open(self, what: str) -> None:
        """Raise ConfigurationError if ``what`` cannot change any more."""
        if self._frozen:
            raise frozen_error(what)


class Listing(Freezable, list[T]):
    """A list that raises ConfigurationError for every change after `freeze`.

    Args:
        what: its name in messages, for example ``"config.death_handlers"``.
    """

    def __init__(self, what: str) -> None:
        self._what = what


def _guarded(name: str) -> Callable[..., Any]:
    change: Callable[..., Any] = getattr(list, name)

    def guarded(listing: Listing[Any], *arguments: Any, **options: Any) -> Any:
        listing.check_open(listing._what)  # noqa: SLF001  # a method of it
        return change(listing, *arguments, **options)

    return guarded


for _name in (
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"),
    *("__setitem__", "__delitem__", "__iadd__", "__imul__"),
):
    setattr(Listing, _name, _guarded(_name))


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
