"""Reads and actions of ``offsider top``, which run in threads, so that the screen never waits for the server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.message import Message

from offsider.cli.text import plain
from offsider.cli.top.tabs import Action, Row, Tab, TabTable, View
from offsider.core.error_text import describe
from offsider.core.errors import OffsiderError


@dataclass
class TableLoaded(Message):
    """A read has finished, with a table or an error message."""

    tab: Tab
    data: TabTable | None
    outage: str


@dataclass
class Acted(Message):
    """An action has finished or failed."""

    answer: str


def post_from_thread(app: App[Any], work: Callable[[], Message]) -> None:
    """Run work in a thread and post its message to the application. Quitting does not wait for it."""

    def run() -> None:
        message = work()
        with suppress(RuntimeError):  # the application has ended
            app.post_message(message)

    threading.Thread(target=run, daemon=True).start()


def read(tab: Tab, view: View) -> TableLoaded:
    """Read a tab; errors become the message of an outage."""
    try:
        return TableLoaded(tab, tab.read(view), "")
    except Exception as error:  # noqa: BLE001 - show any error: the next read may succeed
        return TableLoaded(tab, None, _reason(error))


def act(action: Action, rows: Sequence[Row]) -> Acted:
    """Act on these rows until an error; the answer counts the results."""
    done: Counter[str] = Counter()
    problem: list[str] = []
    try:
        for row in rows:
            done[action.act(row.subject)] += 1
    except Exception as error:  # noqa: BLE001 - see `read`
        problem = [f"then an error: {plain(_reason(error))}" if done else f"error: {plain(_reason(error))}"]
    return Acted(", ".join([f"{count} {how}" for how, count in done.items()] + problem))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, OffsiderError) else describe(error)
