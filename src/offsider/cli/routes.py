"""``offsider routes`` and ``offsider shards``: explain the queues of jobs and shards, and check them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from offsider.cli.command import APPLICATION, JSON, MAX_LETTERS, SETTINGS, ConnectionOptions, connected, print_json
from offsider.cli.queues import served_queues
from offsider.cli.text import plain, say
from offsider.config.config import DEFAULT, Config
from offsider.config.installation import Installation
from offsider.config.queue_spec import parse_all
from offsider.config.routing import route
from offsider.config.shards import RoutedQueue, routes_of
from offsider.core.errors import ConfigurationError, UnknownJob
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.fleet.rules import check_rules, rules_in_use
from offsider.fleet.shards import ShardPlan, plan_shards, served_by, worth_knowing, wrong_with
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.query_queues import serve_selected


@click.group(context_settings=SETTINGS)
def routes() -> None:
    """Show where routing rules send jobs, and check the rules."""


@routes.command(context_settings=SETTINGS)
@click.argument("name")
@APPLICATION
@connected()
def explain(connection: ConnectionOptions, name: str) -> None:
    """Show the queue of the job NAME, and the rule that chose it."""
    config = connection.load_declarations()
    say(*(plain(line, MAX_LETTERS) for line in explained(_find(name), config)))


def explained(job: Declared, config: Config) -> list[str]:
    """Return lines: the queue, the rule, the rules before it, and the characteristics of the job."""
    rules = config.routing.rules
    routed = route(job, rules, config.jobs)
    lines = [
        f"{job.name} goes to {RoutedQueue(routed.server, routed.queue)}",
        f"  because of {_reason(job, config, routed.rule)}",
    ]
    for number, rule in enumerate(rules[: (routed.rule or len(rules) + 1) - 1], start=1):
        lines.append(f"  not rule {number}: {rule}")
    for predicate, values in job.characteristics.attributes(job.name).items():
        lines.append(f"  {predicate}: {', '.join(sorted(values)) or '-'}")
    return lines


def _reason(job: Declared, config: Config, number: int) -> str:
    rules = config.routing.rules
    if number:
        return f"rule {number} of {len(rules)}: {rules[number - 1]}"
    without = f"no match among {counted(len(rules), 'rule')}" if rules else "no rules"
    if job.declared_queue is not None:
        return f"{without}: the queue that it declares"
    return f"{without}: the queue with the job's name" if rules else f"{without}: the default queue"


@routes.command(context_settings=SETTINGS)
@APPLICATION
@connected()
@click.option(
    "-q",
    "--queue",
    multiple=True,
    metavar="NAME",
    help="Queue that workers serve, instead of the queues of the configuration. Repeatable.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Read from the servers which queues running workers serve, and which rules programs use.",
)
def check(connection: ConnectionOptions, queue: tuple[str, ...], *, live: bool) -> int:
    """Find rules that never match first, values that no job has, and queues that no worker serves.

    If the configuration has shards, it also finds shards without queues, and shards on another server than the rules
    choose. Queues of two shards, and queues without a declared job, are notes.

    The exit code is 1 if there are any errors. Unknown predicates are errors in every command that reads the rules.
    """
    config = connection.load_declarations()
    rules, jobs = config.routing.rules, registry.all_jobs()
    plans, found = plan_shards(config.shards, routes_of(config)), routes_of(config).destinations()
    wrong = check_rules(rules, jobs, config.jobs, _served(config, queue, plans, live=live))
    wrong += [*_other_rules(config)] if live else [*wrong_with(plans, found)]
    for sentence in wrong:
        say(plain(sentence, MAX_LETTERS))
    for sentence in worth_knowing(plans, found):
        say(plain(f"note: {sentence}", MAX_LETTERS))
    if not wrong:
        say(f"{counted(len(rules), 'rule')} for {counted(len(jobs), 'job')}: no problems ({rules.digest})")
    return 1 if wrong else 0


def _other_rules(config: Config) -> list[str]:
    own = config.routing.rules.digest
    others = [used for used in rules_in_use(config) if used.rules != own]
    return [f"these rules are {own}, but {', '.join(used.users)} use other rules ({used.rules})" for used in others]


def _served(
    config: Config, given: Sequence[str], plans: Sequence[ShardPlan], *, live: bool
) -> Mapping[str, Collection[str]]:
    """Return the served queues by server."""
    if live:
        return {server: served_queues(Installation.of(config, server)) for server in config.servers}
    if given:
        names = {spec.name for name in given for spec in parse_all([name])}
        return dict.fromkeys(config.servers, names)
    if plans:
        return served_by(plans, _of_capsules(config))
    serve_selected(config)
    specs = [queue for capsule in config.capsules.values() for queue in capsule.queues]
    return {config.server: {spec.name for name in specs for spec in parse_all([name])}}


def _find(name: str) -> Declared:
    try:
        return registry.find(name)
    except UnknownJob:
        known = sorted(registry.names())
        raise UnknownJob(name, f"unknown job {name!r}{suggest(name, known)}") from None


NO_SHARDS = "the configuration has no shards: each is a table [shards.NAME] with queues or select"


@click.command(context_settings=SETTINGS)
@APPLICATION
@connected()
@JSON
def shards(connection: ConnectionOptions, *, as_json: bool) -> None:
    """Show each shard: its server, its queues, and their declared jobs.

    `offsider routes check` finds errors in shards.
    """
    config = connection.load_declarations()
    if not config.shards:
        raise ConfigurationError(NO_SHARDS)
    plans = plan_shards(config.shards, routes_of(config))
    if as_json:
        print_json([_data(plan, config) for plan in plans])
        return
    for plan in plans:
        say(*(plain(line, MAX_LETTERS) for line in _lines(plan, config)))


def _of_capsules(config: Config) -> set[str]:
    """Return the queues that every worker serves in addition to its shard's queues."""
    return {spec.name for name, capsule in config.capsules.items() if name != DEFAULT for spec in capsule.specs}


def _lines(plan: ShardPlan, config: Config) -> list[str]:
    section = plan.section
    threads = counted(section.concurrency or config.worker.concurrency, "thread")
    number = section.processes or config.worker.processes or 1
    processes = f"{number} processes" if number > 1 else "1 process"
    where = f"{section.server} ({config.servers[section.server].redacted_url})"
    lines = [f"{plan.name}: {processes} of {threads}, server {where}"]
    lines += [f"  selects {section.select}"] if section.select else []
    lines += [f"  {queue}: {_names(plan.jobs[queue])}" for queue in plan.queues]
    return lines if plan.queues else [*lines, "  no queue"]


def _names(jobs: Sequence[str]) -> str:
    return ", ".join(jobs) if jobs else "no declared job"


def _data(plan: ShardPlan, config: Config) -> Mapping[str, Any]:
    section = plan.section
    return {
        "name": plan.name,
        "server": section.server,
        "url": config.servers[section.server].redacted_url,
        "select": section.select,
        "concurrency": section.concurrency or config.worker.concurrency,
        "processes": section.processes or config.worker.processes or 1,
        "queues": [{"name": queue, "jobs": list(plan.jobs[queue])} for queue in plan.queues],
    }
