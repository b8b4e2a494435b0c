"""The three modes of a test: pushes are kept (fake), run at once (inline), or go to Redis as ever (disabled).

A mode holds for the whole process, so pushes of other threads are caught too. Blocks may be nested in any way;
the innermost one wins.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager

from offsider.client.prepared import Prepared
from offsider.core.errors import ConfigurationError
from offsider.testing.recorder import Recorder
from offsider.testing.run import Runner
from offsider.wiring import sinks
from offsider.wiring.config import Config
from offsider.wiring.environment import environment_name
from offsider.wiring.middleware import ServerMiddleware

logger = logging.getLogger("offsider")

_lock = threading.Lock()
_for_good = ExitStack()


class Inline:
    """Runs what is pushed, in the pushing thread."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __call__(self, pushed: Sequence[Prepared]) -> None:
        for prepared in pushed:
            self._runner.run(prepared)


@contextmanager
def fake(
    *, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()
) -> Generator[Recorder, None, None]:
    """Keep every push of this process in memory for the time of the block, and give the `Recorder` of them.

    Client middleware runs and arguments are checked as ever.

    Args:
        config: whose server middleware and clock drained jobs see; default: this process's configuration.
        server_middleware: for drained jobs, inside of that of the configuration; for this test alone.
    """
    _warn_outside_tests("fake")
    recorder = Recorder(config, server_middleware)
    with sinks.diverted(recorder):
        yield recorder


@contextmanager
def inline(
    *, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()
) -> Generator[None, None, None]:
    """Run every job where it is pushed, for the time of the block.

    Arguments go to JSON and back, client and server middleware run, scheduled jobs run at once, and an error of
    a job comes out of the push; so does ``Reschedule``, because nobody is there to run the job later.

    Args:
        config, server_middleware: as for `fake`.
    """
    _warn_outside_tests("inline")
    with sinks.diverted(Inline(Runner(config, server_middleware))):
        yield


@contextmanager
def disabled() -> Generator[None, None, None]:
    """Push to Redis, as without any mode, for the time of the block."""
    with sinks.diverted(None):
        yield


def use_fake(*, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> Recorder:
    """As `fake`, for the rest of the process, or until `use_inline` or `use_redis`: for a shell, or a test framework
    without context managers. It holds inside of blocks that are open, too.
    """
    _warn_outside_tests("fake")
    recorder = Recorder(config, server_middleware)
    _use(recorder)
    return recorder


def use_inline(*, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
    """As `inline`, for the rest of the process, or until `use_fake` or `use_redis`."""
    _warn_outside_tests("inline")
    _use(Inline(Runner(config, server_middleware)))


def use_redis() -> None:
    """End what `use_fake` or `use_inline` began."""
    with _lock:
        _for_good.close()


def current_recorder(asking: str) -> Recorder:
    """The recorder of the fake mode that is on.

    Raises:
        ConfigurationError: the innermost mode is another one; the message names who asked.
    """
    sink = sinks.current()
    if not isinstance(sink, Recorder):
        mode = "inline mode is on" if isinstance(sink, Inline) else "pushes go to Redis"
        raise ConfigurationError(
            f"{asking} looks at the jobs of fake mode, but {mode}: use it inside `with testing.fake():` "
            "or with the fixture offsider_fake"
        )
    return sink


def _use(sink: sinks.Sink) -> None:
    with _lock:
        _for_good.close()
        _for_good.enter_context(sinks.diverted(sink))


def _warn_outside_tests(mode: str) -> None:
    """Jobs that never reach Redis are right in tests alone; in production they would be lost without a word."""
    if "pytest" in sys.modules or "unittest" in sys.modules or environment_name(os.environ) == "test":
        return
    logger.warning(
        "offsider's %s mode is on, and this does not look like a test: jobs do not go to Redis. "
        "OFFSIDER_ENV=test silences this",
        mode,
    )
