"""Routing rules: those in use by programs, and checks for rules that never apply and queues that no worker serves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from offsider.client import client_registry
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import UNROUTED, Rules
from offsider.core.characteristics import EVERY_JOB, POSSIBLE
from offsider.core.errors import RedisUnavailable
from offsider.core.wording import counted, listed
from offsider.inspector.finding import Finding, warn
from offsider.inspector.process import ProcessSet
from offsider.jobs.declared import Declared
from offsider.jobs.routes import Routes, unserved
from offsider.storage.processes import published_jobs


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


@dataclass(frozen=True, slots=True)
class RulesInUse:
    """Routing rules and the programs that use them.

    Attributes:
        rules: digest of the rules; ``"none"`` for no rules.
        users: ``"worker on HOST"``, or ``"PROGRAM on HOST"`` for a program that pushed jobs; sorted.
    """

    rules: str
    users: Sequence[str]


def rules_in_use(config: Config | Installation | None = None) -> list[RulesInUse]:
    """Return the rules of workers and of clients of the last five minutes, sorted by number of users, highest first.

    More than one item means that programs disagree. Ruby processes do not route and are not included.

    Args:
        config: the configuration whose servers to read, all of them, since a program that pushes to one server routes
            for all. An unreachable server is skipped, unless it is the server of ``config``. Default: the
            configuration of this process.
    """
    start = Installation.of(config)
    users: dict[str, set[str]] = {}
    for server in start.config.servers:
        with nullcontext() if server == start.name else suppress(RedisUnavailable):
            _note_users(start.for_server(server), users)
    found = (RulesInUse(rules, sorted(who)) for rules, who in users.items())
    return sorted(found, key=lambda each: (-len(each.users), each.rules))


def _note_users(server: Installation, users: dict[str, set[str]]) -> None:
    redis = server.redis
    processes = list(iter(ProcessSet(server)))
    ours = published_jobs(redis, [process.identity for process in processes])
    for process in processes:
        if process.identity in ours:
            users.setdefault(process.routing or UNROUTED, set()).add(f"worker on {process.hostname}")
    for client in client_registry.seen(redis):
        users.setdefault(client.rules, set()).add(f"{client.role} on {client.host}")


def check_routing(server: Installation) -> Iterator[Finding]:
    """Find programs with different routing rules."""
    in_use = rules_in_use(server)
    if len(in_use) > 1:
        yield warn(
            "routing",
            f"processes use different routing rules: {'; '.join(map(_rules, in_use))}",
            cause="the queue of a job depends on the process that pushes it",
            actions=("deploy the same [routing] rules to all of them and restart; the warning clears in 5 minutes",),
            numbers={"rules": len(in_use)},
        )


def _rules(in_use: RulesInUse) -> str:
    name = "no rules" if in_use.rules == UNROUTED else in_use.rules
    return f"{name} by {listed(in_use.users)}"
