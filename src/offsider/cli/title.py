"""The process title in ``ps`` and ``top``; needs the package setproctitle."""

from __future__ import annotations

from collections.abc import Callable


def title_setter() -> Callable[[str], None]:
    """Return a function that sets the title; it does nothing if setproctitle is not installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return lambda _title: None
    return setproctitle
