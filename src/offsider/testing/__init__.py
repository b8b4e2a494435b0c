"""Tools for tests of applications with jobs: pushes stay in memory or run at once, and assertions check them.

    from offsider import testing

    with testing.fake() as enqueued:
        sign_up("ada@example.com")
        testing.assert_enqueued(welcome, "ada@example.com")
        enqueued.drain()

The names are imported at first use: pytest loads the plugin of this package in every project with offsider
installed, and must not become slower.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.testing.enqueued_job import EnqueuedJob
    from offsider.testing.fake_clock import FakeClock
    from offsider.testing.modes import (
        NothingEnqueued,
        Recorder,
        assert_enqueued,
        assert_not_enqueued,
        disabled,
        fake,
        inline,
    )
    from offsider.testing.running_worker import RunningWorker, real

__all__ = [
    "EnqueuedJob",
    "FakeClock",
    "NothingEnqueued",
    "Recorder",
    "RunningWorker",
    "assert_enqueued",
    "assert_not_enqueued",
    "disabled",
    "fake",
    "inline",
    "real",
]

_ELSEWHERE = {
    "EnqueuedJob": "enqueued_job",
    "FakeClock": "fake_clock",
    "RunningWorker": "running_worker",
    "real": "running_worker",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'modes')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
