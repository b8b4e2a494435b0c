"""The event log: deploys, processes that start, end or die, pauses and controls, actions of operators, faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import events

#: Kinds of events that offsider writes.
KINDS = events.KINDS
ACTION = events.ACTION


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        id: ID of the event, unique on its server.
        at: time in epoch seconds, by the server's clock.
        kind: what happened, such as ``"process-died"``.
        subject: what it is about, such as a process, queue, class, job or release.
        who: the operator; empty if no operator did it.
        fields: the other fields, such as ``how`` and ``jobs`` of a process that died.
    """

    id: str
    at: float
    kind: str
    subject: str = ""
    who: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


class EventLog:
    """The events of one server: about 10,000 are kept.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._redis = Installation.of(config).redis

    def __len__(self) -> int:
        return events.count(self._redis)

    def note(self, kind: str, subject: str = "", who: str = "", **fields: str | float | None) -> bool:
        """Append an event. False if the server is unavailable or full.

        Args:
            kind: one of `KINDS`, or a kind of an application.
            subject: what it is about.
            who: the operator; empty if no operator did it.
            fields: numbers and short texts; never arguments of a job.
        """
        return events.note(self._redis, kind, subject, who, **fields)

    def read(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        kinds: Collection[str] = (),
        who: str = "",
        subject: str = "",
        count: int = 100,
    ) -> list[Event]:
        """Return up to ``count`` events, newest first.

        Args:
            since, until: times in epoch seconds.
            kinds: only these kinds; empty for all.
            who, subject: texts that the event's operator or subject contains, in upper or lower case.
        """
        everything = (_event(*stored) for stored in events.newest_first(self._redis, since, until))
        found = (
            event
            for event in everything
            if (not kinds or event.kind in kinds) and _contains(event.who, who) and _contains(event.subject, subject)
        )
        return list(islice(found, count))


def _event(id_: str, fields: dict[str, str]) -> Event:
    kind, subject, who = (fields.pop(name, "") for name in ("kind", "subject", "who"))
    return Event(id_, int(id_.partition("-")[0]) / 1000, kind, subject, who, fields)


def _contains(text: str, part: str) -> bool:
    return part.casefold() in text.casefold()
