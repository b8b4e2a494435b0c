"""One line in the log for each action and each refusal: who did what to what, and what came of it.

What visitors send is in these lines, so it is cut, and letters that would end a line or hide a part of it are escaped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.web.answers import WebError
    from offsider.web.request import Request
    from offsider.web.visit import Visit

log = logging.getLogger("offsider.web")
MOST_LETTERS = 500
#: Fields of a form that say nothing about the target.
_SILENT = frozenset({"confirmed", "back", "offsider_question"})


def note(visit: Visit, action: str, outcome: str) -> None:
    """Write the line. Done or refused, both are worth knowing."""
    client = visit.request.client
    fields = {"who": visit.who or client, "action": action, "target": target_of(visit)}
    _write(fields | {"server": visit.server, "client": client}, outcome)


def refused(request: Request, action: str, error: WebError, *, who: str = "", server: str = "") -> None:
    """Write the line of one who is not let in, or may not see or do this.

    Args:
        request: what was asked.
        action: what it would have been, or the method where that is not known.
        error: what was answered.
        who: the visitor's name; empty before it is known.
        server: whose pages were asked for; empty before that is known.
    """
    fields = {"who": who or request.client, "action": action, "target": request.path}
    _write(fields | {"server": server, "client": request.client}, f"refused: {error}")


def _write(fields: Mapping[str, str], outcome: str) -> None:
    told = {name: shown(value) for name, value in fields.items()}
    told["who"] = told["who"] or "unknown"
    log.info("%s: %s", told["action"], shown(outcome), extra={"fields": told})


def target_of(visit: Visit) -> str:
    """What an action is about: its path, and the fields of its form, cut."""
    fields = [f"{name}={value}" for name, value in visit.form.pairs[:50] if name not in _SILENT]
    return shown(" ".join([visit.location, *fields]))


def shown(text: str) -> str:
    """Text that somebody sent, fit for a line of the log."""
    cut = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
    return cut if cut.isprintable() else "".join(letter if letter.isprintable() else _escaped(letter) for letter in cut)


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()
