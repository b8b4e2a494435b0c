"""``offsider routes``: explain the queues of jobs, and check rules and shards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import click

from offsider.cli.command import APPLICATION, CONNECTION, MAX_LETTERS, ConnectionOptions, command
from offsider.cli.text import plain, say
from offsider.config.config import DEFAULT, Config
from offsider.config.installation import Installation
from offsider.config.routing import parse_all, route
from offsider.core.errors import UnknownJob
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.fleet.rules import check_rules, rules_in_use
from offsider.fleet.shards import ShardPlan, plan_shards, served_by, worth_knowing, wrong_with
from offsider.inspector import ServerLook
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.routes import RoutedQueue, routes_of, serve_selected


@click.group
def routes() -> None:
    """Show where routing rules send jobs, and check the rules."""


@command(click.argument("name"), APPLICATION, *CONNECTION, within=routes)
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


@command(
    APPLICATION,
    *CONNECTION,
    click.option(
        "-q", "--queue", multiple=True, metavar="NAME",
        help="Queue that workers serve, instead of the queues of the configuration. Repeatable.",
    ),
    click.option(
        "--live", is_flag=True,
        help="Read from the servers which queues running workers serve, and which rules programs use.",
    ),
    within=routes,
)  # fmt: skip
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
        return {server: ServerLook.read(Installation.of(config, server)).served for server in config.servers}
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


def _of_capsules(config: Config) -> set[str]:
    """Return the queues that every worker serves in addition to its shard's queues."""
    return {spec.name for name, capsule in config.capsules.items() if name != DEFAULT for spec in capsule.specs}
