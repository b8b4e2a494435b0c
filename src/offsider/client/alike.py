"""Pushes of a bulk push that differ only in arguments and jid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias

from offsider.client.prepared import filled
from offsider.runtime.middleware import Push


class Alike:
    """Pushes that share all but arguments and jid. Iterating makes each of them; most users need the template only.

    Attributes:
        template: a push with the shared values. A change of it changes all.
        calls: the positional arguments of each.
        jids: the id of each.
    """

    def __init__(self, template: Push, calls: Sequence[list[Any]], jids: Sequence[str]) -> None:
        self.template = template
        self.calls = calls
        self.jids = jids

    def __len__(self) -> int:
        return len(self.jids)

    def __iter__(self) -> Iterator[Push]:
        return map(push_like, repeat(self.template), self.calls, self.jids)


def push_like(template: Push, args: list[Any], jid: str) -> Push:
    """Return a push that has only these two for itself."""
    payload = filled(template.payload, args, jid)
    tags = payload.get("tags")
    if tags is not None:
        payload["tags"] = list(tags)  # middleware may tag a single job
    return Push(payload=payload, reason="push", job=template.job, server=template.server)


Pushes: TypeAlias = "Alike | Sequence[Push]"


def templates(pushes: Pushes) -> Sequence[Push]:
    """Return the pushes, only one for all that are alike: enough to read or change what they share."""
    return (pushes.template,) if isinstance(pushes, Alike) else pushes


def jids_of(pushes: Pushes) -> Sequence[str]:
    """Return the id of each push."""
    return pushes.jids if isinstance(pushes, Alike) else [push.payload.get("jid", "") for push in pushes]
