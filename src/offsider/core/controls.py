"""Controls: what an operator decides about a group of jobs, and the subjects that name the group.

A subject is one of:

* a class, by its stored name: ``shop.sync_stock``
* a class with a key: ``shop.sync_stock[acme]``; the option ``key=`` of the job returns the key
* a queue: ``queue=mails``
* a selector in the grammar of routing rules: ``urgency=low&tags=export``, or ``*`` for every job

The most specific control decides: that of the key, the class, the selectors (the one with most terms first), the queue.
A limit is no decision, so the jobs need slots of each group that limits them; ``run`` ends the search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from offsider.core.characteristics import EVERY_JOB, Query
from offsider.core.errors import InvalidQuery, OffsiderError

Action: TypeAlias = Literal["run", "limit", "hold", "defer", "drop"]
ACTIONS: tuple[Action, ...] = ("run", "limit", "hold", "defer", "drop")

QUEUE = "queue="
MAX_LIMIT = 1_000_000
MAX_CHARACTERS = 500
_KEY = re.compile(r"[^\[\]=]+\[.+\]", re.DOTALL)


class InvalidControl(OffsiderError, ValueError):
    """A value of a control is invalid. The message names the field and the expected value."""


@dataclass(frozen=True, slots=True)
class Control:
    """A control of one subject.

    Attributes:
        subject: the jobs that it applies to.
        action: ``"run"``: they run without a limit. ``"limit"``: at most ``limit`` run at once. ``"hold"``: they wait
            in a list. ``"defer"``: they move to the schedule. ``"drop"``: they move to the quarantine.
        limit: maximum concurrent runs.
        delay_seconds: delay of a deferred job until its next attempt.
        keep: move dropped jobs to the quarantine; otherwise delete them.
        since: when it was set, in epoch seconds.
        until: when it expires, in epoch seconds; None if it stays until an operator ends it.
        by: who set it; empty if unknown.
        reason: why it was set, as free text.
    """

    subject: str
    action: Action
    limit: int = 0
    delay_seconds: float = 0.0
    keep: bool = True
    since: float = 0.0
    until: float | None = None
    by: str = ""
    reason: str = ""

    @property
    def described(self) -> str:
        """What it does: ``limited to 3``, ``held``, ``deferred by 60 s``, ``dropped``."""
        return {
            "run": "run without a limit",
            "limit": f"limited to {self.limit}",
            "hold": "held",
            "defer": f"deferred by {self.delay_seconds:g} s",
            "drop": "dropped" if self.keep else "deleted",
        }[self.action]


def check(control: Control) -> Control:
    """Return the control. Raises InvalidControl if its subject or another value is invalid."""
    for field, text in (("subject", control.subject), ("by", control.by), ("reason", control.reason)):
        if len(text) > MAX_CHARACTERS:
            raise InvalidControl(f"{field} of a control expects at most {MAX_CHARACTERS} characters, got {len(text)}")
    if control.subject.removeprefix(QUEUE) == "":
        raise InvalidControl(
            "a control needs a subject: a class, a class with a key, queue=NAME, or a selector such as urgency=low"
        )
    if "=" in control.subject and is_class(control.subject) and class_of(control.subject) == control.subject:
        _parse(control.subject)
    if control.action == "limit" and not (type(control.limit) is int and 1 <= control.limit <= MAX_LIMIT):
        raise InvalidControl(
            f"limit of {control.subject}: expected 1 to {MAX_LIMIT:,} concurrent runs, got {control.limit!r}; "
            "to run none, hold it; for no limit, run it"
        )
    return control


def selector(subject: str) -> Query | None:
    """Return the query of a selector; None for another subject, such as a class with an odd name."""
    if subject.startswith(QUEUE) or ("=" not in subject and subject != EVERY_JOB) or _KEY.fullmatch(subject):
        return None
    try:
        return _parse(subject)
    except InvalidControl:
        return None


def _parse(subject: str) -> Query:
    try:
        return Query.parse(subject)
    except InvalidQuery as error:
        raise InvalidControl(f"the subject {error}") from None


def is_class(subject: str) -> bool:
    """Whether a subject is a class or a class with a key."""
    return selector(subject) is None and not subject.startswith(QUEUE)


def group_name(name: str, key: str) -> str:
    """Return the subject of a class and a key; of the class itself for an empty key."""
    return f"{name}[{key}]" if key else name


def class_of(subject: str) -> str:
    """Return the class of a class with a key; other subjects are returned unchanged."""
    return subject.partition("[")[0] if _KEY.fullmatch(subject) else subject
