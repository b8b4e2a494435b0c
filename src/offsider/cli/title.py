"""The process title, as ``ps`` and ``top`` show it; needs the package setproctitle."""

from __future__ import annotations

from collections.abc import Callable


def title_setter() -> Callable[[str], None]:
    """What sets the title; does nothing where setproctitle is not installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return lambda _title: None
    return setproctitle
