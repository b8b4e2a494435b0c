"""Routing rules choose the queue and the server of a job by its characteristics, in the process that pushes it.

1. The first rule whose query matches the job wins, and overrides the queue that the job declares.
2. A rule without a queue routes the job to the queue named after it.
3. A job that matches no rule uses the queue that it declares, or else the queue named after it.
4. Without any rules, a job uses the queue that it declares, or else the default queue.
5. The server comes from the winning rule, else from the job's declaration, else it is ``main``.

The grammar of a query is in ``core/routing_grammar.py``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

from offsider.core.errors import ConfigurationError, InvalidOptions, InvalidQuery
from offsider.core.options import check_queue_name
from offsider.core.routing_grammar import Attributes, Query

if TYPE_CHECKING:
    from offsider.core.characteristics import Characteristics

#: The server of the section ``redis``.
MAIN = "main"
#: Digest of a client or a process without rules.
UNROUTED = "none"
_DIGEST_CHARACTERS = 12


class Routable(Protocol):
    """A declared job, as far as rules use it."""

    @property
    def name(self) -> str: ...

    @property
    def characteristics(self) -> Characteristics: ...

    @property
    def declared_queue(self) -> str | None: ...

    @property
    def declared_retry_queue(self) -> str: ...

    @property
    def declared_server(self) -> str: ...


class Rule(NamedTuple):
    """One routing rule.

    Attributes:
        query: the jobs that the rule applies to.
        queue: their queue; empty for the queue named after the job.
        server: the server of the queue; empty if the rule does not choose one.
    """

    query: Query
    queue: str = ""
    server: str = ""

    def __str__(self) -> str:
        where = f" of {self.server}" if self.server else ""
        return f"{self.query.text.strip()} → {self.queue or '(named after the job)'}{where}"


class Routed(NamedTuple):
    """The destination of a job, and the rule that chose it.

    Attributes:
        queue: the queue of the job.
        rule: the number of the winning rule, from 1; 0 if no rule matched.
        server: the name of the server of the queue.
    """

    queue: str
    rule: int = 0
    server: str = MAIN


class Rules(tuple[Rule, ...]):
    """All rules in order. An empty tuple means that nothing is routed."""

    __slots__ = ()

    @classmethod
    def read(cls, given: object) -> Rules:
        """Parse the rules of a file: a list of ``[query, queue]`` or ``[query, queue, server]``.

        Raises:
            ConfigurationError: the message has the number of the invalid rule and the position in it.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, list | tuple):
            raise ConfigurationError(f'expected a list of rules, each ["query", "queue"], got {given!r}')
        items = cast("Sequence[object]", given)
        return cls(_rule(number, item) for number, item in enumerate(items, start=1))

    def route(self, job: Routable) -> Routed:
        """Route a job by these rules; there must be at least one."""
        characteristics = job.characteristics
        attributes = characteristics.attributes(job.name)
        number = self.first_match(attributes)
        queue, server = (self[number - 1].queue, self[number - 1].server) if number else (job.declared_queue, "")
        return Routed(queue or characteristics.generated_queue(job.name), number, server or job.declared_server or MAIN)

    def first_match(self, attributes: Attributes) -> int:
        """Return the number of the first rule that matches these attributes, from 1; 0 if none does."""
        return next((number for number, rule in enumerate(self, start=1) if rule.query.matches(attributes)), 0)

    @property
    def digest(self) -> str:
        """A hash of the rules and their order; ``"none"`` for no rules."""
        if not self:
            return UNROUTED
        written = json.dumps([_said(rule) for rule in self], separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()[:_DIGEST_CHARACTERS]


NO_RULES = Rules()


def route(job: Routable, rules: Rules, defaults: Mapping[str, object]) -> Routed:
    """Route a job whose push sets no queue.

    Args:
        job: its declaration.
        rules: all rules; may be empty.
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
                f'rule {number}: expected ["query", "queue"] or ["query", "queue", "server"], got {item!r}'
            )
    try:
        return Rule(Query.parse(str(query)), check_queue_name(str(queue)) if queue else "", str(server))
    except (InvalidQuery, InvalidOptions) as error:
        raise ConfigurationError(f"rule {number}: {error}") from None


# ----------------------------------------------------------------------------------------------------
# The declared jobs, for modules in lower layers that cannot import the job registry.
#
# The registry sets its lookup functions here when it is imported. Before that, no job is declared.

Find: TypeAlias = Callable[[str], Routable | None]
Every: TypeAlias = Callable[[], Sequence[Routable]]


_find: Find = dict[str, Routable]().get
_every: Every = tuple


def provided_by(find: Find, every: Every) -> None:
    """Set the functions that find a job by its name and list all jobs."""
    global _find, _every  # a process has one registry
    _find, _every = find, every


def known_job(name: str) -> Routable | None:
    """Return the job with this stored name or alias; None if it is not declared in this process."""
    return _find(name)


def known_jobs() -> Sequence[Routable]:
    """Return every job that is declared in this process."""
    return _every()
