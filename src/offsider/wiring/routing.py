"""Routing rules: which queue of which server a job goes to, by what it says of itself. Decided where it is pushed.

1. Rules are looked at in their order; the first whose query matches wins, whatever queue the job declares.
2. A rule without a queue sends the job to the queue that is named after it.
3. A job that no rule matches keeps the queue it declares, or else goes to the one that is named after it.
4. Without any rules the declared queue holds, or else the default.
5. The server is the one that the winning rule names, else the one that the job declares, else ``main``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from offsider.core.errors import ConfigurationError, InvalidOptions, InvalidQuery
from offsider.core.options import check_queue_name
from offsider.core.query import Attributes, Query

if TYPE_CHECKING:
    from offsider.core.characteristics import Characteristics

#: The server of the section ``redis``.
MAIN = "main"
#: What a client or a process without rules tells in place of their digest.
UNROUTED = "none"
_DIGEST_CHARACTERS = 12


class Routable(Protocol):
    """What rules look at: a declared job."""

    @property
    def name(self) -> str: ...

    @property
    def characteristics(self) -> Characteristics: ...

    @property
    def declared_queue(self) -> str | None: ...

    @property
    def declared_server(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: jobs that ``query`` chooses go to ``queue``, or to the queue named after them when that is empty.

    Attributes:
        server: where that queue is; empty: the rule says nothing about it.
    """

    query: Query
    queue: str = ""
    server: str = ""

    def __str__(self) -> str:
        where = f" of {self.server}" if self.server else ""
        return f"{self.query.text.strip()} → {self.queue or '(named after the job)'}{where}"


@dataclass(frozen=True, slots=True)
class Routed:
    """Where a job goes, and why.

    Attributes:
        queue: where it goes.
        rule: the number of the rule that won, from 1; 0 when none did.
        server: the name of the server that has the queue.
    """

    queue: str
    rule: int = 0
    server: str = MAIN


class Rules(tuple[Rule, ...]):
    """All rules in their order. No rules are the empty tuple, and route nothing."""

    __slots__ = ()

    @classmethod
    def read(cls, given: object) -> Rules:
        """Rules as a file has them: a list of ``[query, queue]`` or ``[query, queue, server]``.

        Raises:
            ConfigurationError: the message tells the number of the rule and the place in it.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, list | tuple):
            raise ConfigurationError(f'a list of rules is expected, each ["query", "queue"], got {given!r}')
        items = cast("Sequence[object]", given)
        return cls(_rule(number, item) for number, item in enumerate(items, start=1))

    def route(self, job: Routable) -> Routed:
        """The queue of a job by these rules, of which there is at least one."""
        characteristics = job.characteristics
        attributes = characteristics.attributes(job.name)
        number = self.first_match(attributes)
        queue, server = (self[number - 1].queue, self[number - 1].server) if number else (job.declared_queue, "")
        return Routed(queue or characteristics.generated_queue(job.name), number, server or job.declared_server or MAIN)

    def first_match(self, attributes: Attributes) -> int:
        """The number of the first rule that chooses a job with these attributes, from 1; 0 when none does."""
        return next((number for number, rule in enumerate(self, start=1) if rule.query.matches(attributes)), 0)

    @property
    def digest(self) -> str:
        """Alike for the same rules in the same order, and only for these; ``"none"`` for no rules."""
        if not self:
            return UNROUTED
        written = json.dumps([_said(rule) for rule in self], separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()[:_DIGEST_CHARACTERS]


NO_RULES = Rules()


def route(job: Routable, rules: Rules, defaults: Mapping[str, object]) -> Routed:
    """The queue of a job when its push says nothing.

    Args:
        job: its declaration.
        rules: maybe none.
        defaults: the default options of all jobs.
    """
    if rules:
        return rules.route(job)
    return Routed(job.declared_queue or str(defaults.get("queue", "default")), server=job.declared_server or MAIN)


def _said(rule: Rule) -> list[str]:
    said = [rule.query.text.strip(), rule.queue]
    return [*said, rule.server] if rule.server else said


def _rule(number: int, item: object) -> Rule:
    match item:
        case [str() as query, str() | None as queue]:
            server: object = ""
        case [str() as query, str() | None as queue, str() as server]:
            pass
        case _:
            raise ConfigurationError(
                f'rule {number}: ["query", "queue"] is expected, or ["query", "queue", "server"]; got {item!r}'
            )
    try:
        return Rule(Query.parse(str(query)), check_queue_name(str(queue)) if queue else "", str(server))
    except (InvalidQuery, InvalidOptions) as error:
        raise ConfigurationError(f"rule {number}: {error}") from None
