"""Warns about blocking pushes on an event loop, once for each place in the code, in development."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from offsider.config import test_mode
from offsider.config.environment import DEFAULT_ENVIRONMENT

if TYPE_CHECKING:
    from offsider.config.config import Config

logger = logging.getLogger("offsider")
_warned: set[tuple[str, int]] = set()


def warn_on_event_loop(config: Config) -> None:
    """Log a warning if this thread runs an event loop, which the caller is about to block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if config.worker.environment != DEFAULT_ENVIRONMENT:
        return
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to get the caller
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("offsider."):
        frame = frame.f_back
    place = frame.f_code.co_filename, frame.f_lineno
    if place in _warned or not test_mode.wants_advice():
        return
    _warned.add(place)
    logger.warning(
        "%s:%d pushes a job on a running event loop, and blocks it until Redis replies: use "
        "`await` with aenqueue, aenqueue_in, aenqueue_at or aenqueue_many",
        *place,
    )
