"""Characteristics that a job declares, never stored in a payload, and queries that select jobs by them.

The grammar of queries is that of GitLab's routing rules::

    query = "*" | clause { "|" clause }      at least one clause matches
    clause = term { "&" term }               all terms match; binds tighter than "|"
    term = predicate ("=" | "!=") value { "," value }

``=`` matches a job that has one of the values, ``!=`` a job that has none of them. A value consists of letters, digits
and ``_ : . -``. Whitespace is allowed only around ``|``, ``&`` and the whole query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from offsider.core.errors import InvalidQuery
from offsider.core.options import BOUNDARIES, CHARACTERISTICS, URGENCIES, Urgency
from offsider.core.removed import message

Attributes: TypeAlias = Mapping[str, frozenset[str]]

_ODD_IN_QUEUES = re.compile(r"[^a-z0-9_.:-]")


@dataclass(frozen=True, slots=True)
class Characteristics:
    """The characteristics of one job.

    Attributes:
        urgency: how soon a run should start; ``"throttled"`` jobs may wait for a long time.
        resource_boundary: the resource that limits a run. ``"none"`` is the default; ``"unknown"`` means the same.
        feature_category: the part of the product, or the team, that owns the job; empty if not declared.
        external_dependencies: whether a run calls external services.
        tags: its labels.
        idempotent: running it twice is harmless.
    """

    urgency: Urgency = "low"
    resource_boundary: Literal["cpu", "memory", "none"] = "none"
    feature_category: str = ""
    external_dependencies: bool = False
    tags: tuple[str, ...] = ()
    idempotent: bool = False

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Characteristics:
        """Select the characteristics from declared options that `check_declaration` accepted."""
        given = {key: declared[key] for key in CHARACTERISTICS if key in declared}
        if given.get("resource_boundary") == "unknown":
            given["resource_boundary"] = "none"
        return cls(**given, tags=tuple(declared.get("tags") or ()))

    def unique_until(self, options: Mapping[str, Any]) -> Any:
        """Return the option ``unique_until`` of a job, with GitLab's default for idempotent jobs."""
        said = options.get("unique_until")
        others = ("unique_for", "throttle", "debounce")
        if said is None and self.idempotent and all(options.get(key) is None for key in others):
            return "until_executing"
        return said

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons why the job will hardly meet its urgency. Each completes a sentence that starts with its name."""
        if self.urgency != "high":
            return ()
        reasons = {
            "calls external services, whose latency it cannot control": self.external_dependencies,
            "is limited by memory, so few runs fit on a host": self.resource_boundary == "memory",
        }
        return [f"is of high urgency and {reason}" for reason, holds in reasons.items() if holds]

    def attributes(self, job_name: str) -> Attributes:
        """Return the values of this job for each predicate of a query."""
        return {
            "worker_name": frozenset((job_name,)),
            "name": frozenset((generated_name(job_name),)),
            "urgency": frozenset((self.urgency,)),
            "resource_boundary": frozenset((self.resource_boundary,)),
            "feature_category": frozenset((self.feature_category,)),
            "has_external_dependencies": frozenset(("true" if self.external_dependencies else "false",)),
            "tags": frozenset(self.tags),
        }


def generated_name(job_name: str) -> str:
    """Return the queue named after a job, as GitLab does: ``ci_build_trace`` for ``Ci::BuildTraceWorker``.

    It is the last part of the name in snake case without ``Worker`` or ``Job``.
    """
    last = job_name.rpartition(".")[2].replace("::", "_")
    words = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", re.sub(r"([A-Z\d]+)([A-Z][a-z])", r"\1_\2", last)).lower()
    for ending in ("_worker", "_job"):
        if words.removesuffix(ending) not in ("", words):
            words = words.removesuffix(ending)
            break
    return _ODD_IN_QUEUES.sub("_", words) or "_"


# ----------------------------------------------------------------------------------------------------
# Queries


EVERY_JOB = "*"
PREDICATES = (
    "worker_name",
    "name",
    "feature_category",
    "has_external_dependencies",
    "resource_boundary",
    "tags",
    "urgency",
)
#: Predicates with a fixed set of values.
POSSIBLE: Mapping[str, tuple[str, ...]] = {
    "urgency": URGENCIES,
    "resource_boundary": BOUNDARIES,
    "has_external_dependencies": ("true", "false"),
}
_TERM = re.compile(r"(?P<predicate>\w+)(?P<operator>!?=)(?P<values>[\w:.-]+(?:,[\w:.-]+)*)")


class Term(NamedTuple):
    """A condition: the job has one of the values or, if ``negated``, none of them."""

    predicate: str
    negated: bool
    values: tuple[str, ...]

    def matches(self, attributes: Attributes) -> bool:
        wanted = (_normal(self.predicate, value) for value in self.values)
        return attributes[self.predicate].isdisjoint(wanted) == self.negated

    def impossible(self) -> tuple[str, ...]:
        """The values that no job can have."""
        possible = POSSIBLE.get(self.predicate)
        return () if possible is None else tuple(value for value in self.values if value not in possible)


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query: a job matches if it matches all terms of at least one clause."""

    text: str
    clauses: tuple[tuple[Term, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Query:
        """Parse a query. Raises InvalidQuery with the position of the error."""
        if text.strip() == EVERY_JOB:
            return cls(text, ((),))
        clauses: list[tuple[Term, ...]] = []
        terms: list[Term] = []
        for start, piece, following in _pieces(text):
            terms.append(_term(text, start, piece))
            if following != "&":
                clauses.append(tuple(terms))
                terms = []
        return cls(text, tuple(clauses))

    def matches(self, attributes: Attributes) -> bool:
        """Whether the query selects a job with these attributes."""
        return any(all(term.matches(attributes) for term in clause) for clause in self.clauses)

    @property
    def terms(self) -> Iterator[Term]:
        return (term for clause in self.clauses for term in clause)


def _pieces(text: str) -> Iterator[tuple[int, str, str]]:
    """Split the query at its operators: yields position, text and following operator of each piece."""
    start = 0
    for match in re.finditer(r"[|&]|\Z", text):
        yield start, text[start : match.start()], match[0]
        start = match.end()


def _term(text: str, start: int, piece: str) -> Term:
    written = piece.strip()
    start += len(piece) - len(piece.lstrip())
    if not written:
        raise _invalid(text, start, "a term such as urgency=high is missing")
    match = _TERM.match(written)
    if match is None:
        raise _invalid(text, start, f"expected a term such as urgency=high or tags!=slow,big, got {written!r}")
    if match.end() != len(written):
        raise _invalid(text, start + match.end(), f"unexpected {written[match.end() :]!r}")
    if match["predicate"] not in PREDICATES:
        unknown = f"unknown predicate {match['predicate']!r}; known are {', '.join(PREDICATES)}"
        raise _invalid(text, start, message("option", match["predicate"]) or unknown)
    return Term(match["predicate"], match["operator"] == "!=", tuple(match["values"].split(",")))


def _invalid(text: str, start: int, what: str) -> InvalidQuery:
    return InvalidQuery(f"{text!r}, character {start + 1}: {what}")


def _normal(predicate: str, value: str) -> str:
    if predicate == "resource_boundary" and value == "unknown":
        return "none"
    if predicate == "has_external_dependencies" and value != "true":  # GitLab's: only "true" is true
        return "false"
    return value
