"""Routing rules against the declared jobs: rules that never win, values that nothing has, queues that nobody serves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from offsider.core.query import EVERY_JOB, POSSIBLE
from offsider.core.wording import counted, listed
from offsider.jobs.declared import Declared
from offsider.wiring.routing import Rules
from offsider.wiring.shards import Routes, unserved


def check_rules(
    rules: Rules, jobs: Sequence[Declared], defaults: Mapping[str, object], served: Mapping[str, Collection[str]]
) -> list[str]:
    """One sentence for each thing that is wrong.

    Args:
        rules: maybe none.
        jobs: all that are declared, and found good.
        defaults: the default options of jobs.
        served: server -> the queues that workers take jobs from; ``*`` among them means all.
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
        matched = sum(rule.query.matches(each) for each in attributes)
        before = next((at for at in range(1, number) if _covers(rules, at, number)), 0)
        if before:
            yield f"rule {number} ({rule}) never wins: rule {before} chooses all of its jobs before it"
        elif matched:
            yield f"rule {number} ({rule}) never wins: rules before it choose all of its {counted(matched, 'job')}"
        else:
            yield f"rule {number} ({rule}) never wins: it chooses none of {counted(len(jobs), 'job')}"


def _covers(rules: Rules, earlier: int, later: int) -> bool:
    first, second = rules[earlier - 1].query, rules[later - 1].query
    return first.text.strip() == EVERY_JOB or first.clauses == second.clauses


def _unserved(
    rules: Rules, jobs: Sequence[Declared], defaults: Mapping[str, object], served: Mapping[str, Collection[str]]
) -> Iterator[str]:
    for each in unserved(Routes(jobs, rules, defaults).destinations(), served):
        yield f"no worker serves {each}, where {listed(each.chosen)} would wait"
