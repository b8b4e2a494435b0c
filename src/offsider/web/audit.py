"""Audit log: one line for each action and each refusal, with the user, the target and the result.

These lines contain text sent by users. So it is cut, and control characters that could end or hide a line are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsider.logs.setup import WITHOUT_FIELDS, web_logger

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest
    from offsider.web.request import Request
    from offsider.web.results import WebError

MAX_LETTERS = 500
#: Form fields that are not part of the target.
_SILENT = frozenset({"confirmed", "back", "offsider_question"})


def note(page_request: PageRequest, action: str, outcome: str) -> None:
    """Log an action and its result."""
    client = page_request.http.client
    fields = {"who": page_request.who or client, "action": action, "target": target_of(page_request)}
    _write(fields | {"server": page_request.server, "client": client}, outcome)


def refused(request: Request, action: str, error: WebError, *, who: str = "", server: str = "") -> None:
    """Log a request that was refused.

    Args:
        request: the request.
        action: the name of the action, or the HTTP method if the route is unknown.
        error: the reason.
        who: the user's name; empty before authentication.
        server: the server of the page; empty before it is known.
    """
    fields = {"who": who or request.client, "action": action, "target": request.path}
    _write(fields | {"server": server, "client": request.client}, f"refused: {error}")


def _write(fields: Mapping[str, str], outcome: str) -> None:
    safe = {name: shown(value) for name, value in fields.items()}
    safe["who"] = safe["who"] or "unknown"
    action, result = safe["action"], shown(outcome)
    # The result is last: it can contain text from the request that imitates fields.
    about = [action, *(f"{name}={safe[name]}" for name in ("who", "client", "server", "target"))]
    extra = {"fields": safe, WITHOUT_FIELDS: f"{action}: {result}"}
    web_logger.info("%s: %s", " ".join(about), result, extra=extra)


def target_of(page_request: PageRequest) -> str:
    """Return the target of an action: its path and form fields, cut."""
    fields = [f"{name}={value}" for name, value in page_request.form.pairs[:50] if name not in _SILENT]
    return shown(" ".join([page_request.location, *fields]))


def shown(text: str) -> str:
    """Make text from a request safe for one line of the log: cut it and escape control characters."""
    cut = text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in cut)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
