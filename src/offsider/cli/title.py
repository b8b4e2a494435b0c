"""The process title in ``ps`` and ``top``; needs the package setproctitle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider import __version__

if TYPE_CHECKING:
    from offsider.worker.launcher import Launcher


def title(launcher: Launcher) -> str:
    """Return the process title: name, version, tag, busy threads, and whether the worker is stopping."""
    words = ["offsider", __version__, launcher.config.worker.tag]
    concurrency = sum(capsule.concurrency for capsule in launcher.config.capsules.values())
    words.append(f"[{launcher.work_state.busy} of {concurrency} busy]")
    if launcher.lifecycle.quieted:
        words.append("stopping")
    return " ".join(word for word in words if word)


def title_setter() -> Callable[[str], None]:
    """Return a function that sets the title; it does nothing if setproctitle is not installed."""
    try:
        from setproctitle import setproctitle
    except ImportError:
        return lambda _title: None
    return setproctitle
