"""The audit of actions: who did what, to how many jobs, and with which result, also if it was refused or failed.

Each action is an event of the event log; an action in the web UI is a line of the log, too. Lines contain text sent by
users. So it is cut, and control characters that could end or hide a line are escaped. Arguments of jobs appear in
neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from offsider.config.installation import Installation
from offsider.inspector.events import ACTION, EventLog
from offsider.logs.setup import WITHOUT_FIELDS, web_logger

MAX_LETTERS = 500
_MAX_FIELDS = 50
#: Form fields that are not part of the target, and those with arguments of a job.
_SILENT = frozenset({"confirmed", "back", "offsider_question", "args", "kwargs", "arguments", "text"})
#: Selected jobs, and fields of a bulk action without a meaning of their own.
_OF_JOBS = frozenset({"key", "counted", "every"})
#: Actions that change a control or a pause: the change is an event of its own, with the same operator.
_EVENTS_OF_THEIR_OWN = frozenset({"pause", "unpause", "resume", "hold", "limit", "defer", "drop"})
#: Actions after which the jobs are in the quarantine, from which they can be restored.
_UNDONE_BY_QUARANTINE = frozenset({"quarantine"})
QUARANTINE = "quarantine"


def done(
    server: Installation,
    action: str,
    outcome: str,
    *,
    who: str,
    subject: str = "",
    filter: str = "",  # noqa: A002  # the word of the pages
    count: int | None = None,
) -> None:
    """Record an action that was done.

    Args:
        server: the server that it changed.
        action: its name, such as ``"job.delete"``.
        outcome: the message to the user.
        who: the user, or ``cli user@host``.
        subject: what it was done to: a queue, a job, a process.
        filter: which of its jobs.
        count: how many jobs.
    """
    screen, _, verb = action.rpartition(".")
    if verb in _EVENTS_OF_THEIR_OWN or (screen, verb) == ("controls", "run"):
        return
    undo = QUARANTINE if verb in _UNDONE_BY_QUARANTINE else ""
    fields = {"filter": filter, "count": count, "outcome": shown(outcome), "undo": undo}
    EventLog(server).note(ACTION, subject, who, action=action, **fields)


def is_last(data: Mapping[str, object]) -> bool:
    """Whether an action with these numbers is complete, and not one step of a bulk action."""
    return bool(data.get("finished", True) or data.get("stopped"))


def result(
    server: Installation,
    action: str,
    outcome: str,
    data: Mapping[str, Any],
    fields: Iterable[tuple[str, str]],
    *,
    who: str,
    subject: str,
) -> None:
    """Record an action of a screen, a bulk action after its last step.

    Args:
        data: its numbers.
        fields: the fields of its request.
    """
    if is_last(data):
        chosen, of = str(data.get("filter", "")) or filter_of(fields), str(data.get("jid", "")) or subject
        done(server, action, outcome, who=who, subject=of, filter=chosen, count=data.get("done_to"))


def failed(server: Installation, action: str, error: str, *, who: str, subject: str = "", filter: str = "") -> None:  # noqa: A002
    """Record an action that was refused or failed."""
    EventLog(server).note(ACTION, subject, who, action=action, filter=filter, error=shown(error))


def log(action: str, outcome: str, *, who: str, target: str, server: str, client: str) -> None:
    """Write the line of an action, or of a request that was refused.

    Args:
        target: path and form fields, see `target_of`.
        server: name of the server; empty before it is known.
        client: address of the client.
    """
    fields = {"who": who or client, "action": action, "target": target, "server": server, "client": client}
    safe = {name: shown(value) for name, value in fields.items()}
    safe["who"] = safe["who"] or "unknown"
    name, result = safe["action"], shown(outcome)
    # The result is last: it can contain text from the request that imitates fields.
    about = [name, *(f"{field}={safe[field]}" for field in ("who", "client", "server", "target"))]
    extra: Mapping[str, object] = {"fields": safe, WITHOUT_FIELDS: f"{name}: {result}"}
    web_logger.info("%s: %s", " ".join(about), result, extra=extra)


def target_of(location: str, fields: Iterable[tuple[str, str]]) -> str:
    """Return the target of an action: its path and form fields, cut."""
    sent = [f"{name}={value}" for name, value in [*fields][:_MAX_FIELDS] if name not in _SILENT]
    return shown(" ".join([location, *sent]))


def filter_of(fields: Iterable[tuple[str, str]]) -> str:
    """Return the form fields that choose jobs."""
    return target_of("", ((name, value) for name, value in fields if value and name not in _OF_JOBS)).strip()


def shown(text: str) -> str:
    """Make text from a request safe for one line of the log: cut it and escape control characters."""
    cut = text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else _escaped(char) for char in cut)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
