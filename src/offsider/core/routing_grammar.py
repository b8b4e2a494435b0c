"""Queries that select jobs by their characteristics, in the grammar of GitLab's routing rules.

::

    query = "*" | clause { "|" clause }      at least one clause matches
    clause = term { "&" term }               all terms match; binds tighter than "|"
    term = predicate ("=" | "!=") value { "," value }

``=`` matches a job that has one of the values, ``!=`` a job that has none of them. A value consists of letters, digits
and ``_ : . -``. Whitespace is allowed only around ``|``, ``&`` and the whole query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from offsider.core.characteristics import BOUNDARIES, URGENCIES
from offsider.core.errors import InvalidQuery

Attributes: TypeAlias = Mapping[str, frozenset[str]]

EVERY_JOB = "*"
PREDICATES = (
    "worker_name",
    "name",
    "feature_category",
    "has_external_dependencies",
    "resource_boundary",
    "tags",
    "urgency",
    "queue_namespace",
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
        known = ", ".join(PREDICATES)
        raise _invalid(text, start, f"unknown predicate {match['predicate']!r}; known are {known}")
    return Term(match["predicate"], match["operator"] == "!=", tuple(match["values"].split(",")))


def _invalid(text: str, start: int, what: str) -> InvalidQuery:
    return InvalidQuery(f"{text!r}, character {start + 1}: {what}")


def _normal(predicate: str, value: str) -> str:
    if predicate == "resource_boundary" and value == "unknown":
        return "none"
    if predicate == "has_external_dependencies" and value != "true":  # GitLab's: only "true" is true
        return "false"
    return value
