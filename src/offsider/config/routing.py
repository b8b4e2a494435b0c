"""The queues that a worker serves, and the routing rules.

Routing rules choose the queue and the server of a job by its characteristics, in the process that pushes it:

1. The first rule whose query matches the job wins, and overrides the queue that the job declares.
2. A rule without a queue routes the job to the queue named after it.
3. A job that matches no rule uses the queue that it declares, or else the queue named after it.
4. Without any rules, a job uses the queue that it declares, or else the default queue.
5. The server comes from the winning rule, else from the declaration of the job; otherwise it is ``main``.

The grammar of a query is in ``core/characteristics.py``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from offsider.core.characteristics import Attributes, Characteristics, Query, generated_name
from offsider.core.errors import ConfigurationError, InvalidOptions, InvalidQuery
from offsider.core.options import check_queue_name

#: The server of the section ``redis``.
MAIN = "main"
#: Digest of a client or a process without rules.
UNROUTED = "none"
_DIGEST_CHARACTERS = 12
EVERY = "*"
MAX_WEIGHT = 1000  # the list that a weighted fetch draws from has one entry per unit of weight


@dataclass(frozen=True)
class QueueSpec:
    """A queue and its weight; 0 means no weight. The name ``*`` means every existing queue."""

    name: str
    weight: int = 0

    @classmethod
    def parse(cls, value: object) -> QueueSpec:
        """Parse ``"name"``, ``"name,weight"`` or a pair; ConfigurationError for anything else.

        A name with a comma needs a weight, which may be 0: ``"a,b,0"``.
        """
        if isinstance(value, QueueSpec):
            return value
        if isinstance(value, str):
            name, comma, weight = value.rpartition(",")
            return cls._checked(name.strip(), weight.strip(), value) if comma else cls._checked(value.strip(), 0, value)
        if isinstance(value, list | tuple):
            pair = tuple(cast("list[object] | tuple[object, ...]", value))
            if len(pair) in (1, 2):
                return cls._checked(pair[0], pair[1] if len(pair) == 2 else 0, pair)
        raise ConfigurationError(f'expected a queue as "name" or "name,weight", got {value!r}')

    @classmethod
    def _checked(cls, name: object, weight: object, given: object) -> QueueSpec:
        if name != EVERY:
            try:
                check_queue_name(name)
            except InvalidOptions as error:
                raise ConfigurationError(str(error)) from None
        if str(name) != str(name).strip():  # it could not be parsed from text
            raise ConfigurationError(f'only "*" can serve a queue whose name begins or ends with a space: {name!r}')
        if isinstance(weight, str) and weight.isascii() and weight.isdigit():
            weight = int(weight)
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= MAX_WEIGHT:
            raise ConfigurationError(
                f"a queue's weight must be a whole number from 0 to {MAX_WEIGHT}, got {given!r}; "
                "list each queue separately"
            )
        return cls(str(name), weight)

    def __str__(self) -> str:
        return f"{self.name},{self.weight}" if self.weight or "," in self.name else self.name


def parse_all(values: Iterable[object]) -> tuple[QueueSpec, ...]:
    """Parse a list of queues; ConfigurationError for an invalid or duplicate name."""
    specs = tuple(QueueSpec.parse(value) for value in values)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"the queue {name!r} is listed twice; to check it more often, give it a weight")
    return specs


class Routable(Protocol):
    """A declared job, as far as rules use it.

    Attributes:
        name: the name stored in the payload.
        declared_queue, declared_retry_queue, declared_server: as declared; without, None for the queue, else empty.
    """

    name: str
    declared_queue: str | None
    declared_retry_queue: str
    declared_server: str

    @property
    def characteristics(self) -> Characteristics:
        """The characteristics that routing rules match."""
        ...


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
        number = self.first_match(job.characteristics.attributes(job.name))
        queue, server = (self[number - 1].queue, self[number - 1].server) if number else (job.declared_queue, "")
        return Routed(queue or generated_name(job.name), number, server or job.declared_server or MAIN)

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
# The declared jobs, for clients, which are below the job registry. The registry sets its function here.

_find: Callable[[str], Routable | None] = dict[str, Routable]().get


def provided_by(find: Callable[[str], Routable | None]) -> None:
    """Set the function that finds a job by its name."""
    global _find  # noqa: PLW0603  # a process has one registry
    _find = find


def known_job(name: str) -> Routable | None:
    """Return the job with this stored name or alias; None if it is not declared in this process."""
    return _find(name)
