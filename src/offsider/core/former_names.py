"""Former names of public objects: they still work, with a DeprecationWarning that names the new one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any


def of_module(module: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a module with renamed objects.

    Args:
        module: the name of the module.
        names: former name to the path of the object, such as ``"offsider.web.PageRequest"``.
    """

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name}", names[name])
        path, _, attribute = names[name].rpartition(".")
        return getattr(import_module(path), attribute)

    return find


class FormerName:
    """A former name of an attribute, assigned in the body of its class.

    Args:
        new: the replacement, as the warning shows it.
        get: returns the value for an object; by default the attribute ``new``.
    """

    def __init__(self, new: str, get: Callable[[Any], object] | None = None) -> None:
        self._new = new
        self._get: Callable[[Any], object] = get if get is not None else attrgetter(new)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, owner: object, kind: type) -> Any:
        if owner is None:
            return self
        warn(self._name, self._new)
        return self._get(owner)


def warn(former: str, new: str) -> None:
    """Warn at the first caller outside of this package, however many of our frames are between."""
    frame = sys._getframe(1)  # noqa: SLF001 - as logging does
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in ("offsider", "importlib"):
        frame = frame.f_back
    warnings.warn_explicit(
        f"{former} is a former name: use {new}",
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
