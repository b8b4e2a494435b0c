"""One line in the log for each action: who did what to what, and what came of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.web.visit import Visit

log = logging.getLogger("offsider.web")
MOST_LETTERS = 500
#: Fields of a form that say nothing about the target.
_SILENT = frozenset({"confirmed", "back"})


def note(visit: Visit, action: str, outcome: str) -> None:
    """Write the line. Done or refused, both are worth knowing."""
    fields = {
        "who": visit.who or visit.request.client or "unknown",
        "action": action,
        "target": target_of(visit),
        "server": visit.server,
        "client": visit.request.client,
    }
    log.info("%s: %s", action, outcome, extra={"fields": fields})


def target_of(visit: Visit) -> str:
    """What an action is about: its path, and the fields of its form, cut."""
    fields = [f"{name}={value}" for name, value in visit.form.pairs[:50] if name not in _SILENT]
    return shown(" ".join([visit.location, *fields]))


def shown(text: str) -> str:
    """Text that somebody sent, short enough for a line of the log."""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
