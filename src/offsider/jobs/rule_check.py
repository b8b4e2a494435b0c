"""Checks routing rules: rules that never apply, impossible values, and queues that no worker serves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from offsider.config.routing import Rules
from offsider.config.shards import Routes, unserved
from offsider.core.routing_grammar import EVERY_JOB, POSSIBLE
from offsider.core.wording import counted, listed
from offsider.jobs.declared import Declared


def check_rules(
    rules: Rules, jobs: Sequence[Declared], defaults: Mapping[str, object], served: Mapping[str, Collection[str]]
) -> list[str]:
    """Return a sentence for each error.

    Args:
        rules: the routing rules; can be empty.
        jobs: all declared jobs, already checked.
        defaults: the default options of jobs.
        served: server -> the queues that workers serve; ``*`` means all.
    """
    return [*_impossible(rules), *_dead(rules, jobs), *_unserved(rules, jobs, defaults, served)]


def _impossible(rules: Rules) -> Iterator[str]:
    for number, rule in enumerate(rules, start=1):
        for term in rule.query.terms:
            for value in term.impossible():
                possible = ", ".join(POSSIBLE[term.predicate])
                yield f"rule {number} ({rule}): no job has {term.predicate}={value}; there are {possible}"


def _dead(rules: Rules, jobs: Sequence[Declared]) -> Iterator[str]:
    attributes = [job.characteristics.attributes(job.name) for job in jobs]
    won = {rules.first_match(each) for each in attributes}
    for number, rule in enumerate(rules, start=1):
        if number in won:
            continue
        if number == len(rules) and rule.query.text.strip() == EVERY_JOB and not _covered(rules, number):
            continue  # a catch-all for future jobs
        matched = sum(rule.query.matches(each) for each in attributes)
        before = _covered(rules, number)
        if before:
            yield f"rule {number} ({rule}) never applies: rule {before} selects all of its jobs before it"
        elif matched:
            yield f"rule {number} ({rule}) never applies: rules before it select all of its {counted(matched, 'job')}"
        else:
            yield f"rule {number} ({rule}) never applies: it selects none of {counted(len(jobs), 'job')}"


def _covered(rules: Rules, number: int) -> int:
    """Return the number of the first rule that covers this one; 0 if there is none."""
    later = rules[number - 1].query
    earlier = enumerate((rule.query for rule in rules[: number - 1]), start=1)
    return next((at for at, query in earlier if query.text.strip() == EVERY_JOB or query.clauses == later.clauses), 0)


def _unserved(
    rules: Rules, jobs: Sequence[Declared], defaults: Mapping[str, object], served: Mapping[str, Collection[str]]
) -> Iterator[str]:
    for each in unserved(Routes(jobs, rules, defaults).destinations(), served):
        yield f"no worker serves {each}, where {listed(sorted(each.chosen))} would wait"
