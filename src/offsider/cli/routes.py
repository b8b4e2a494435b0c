"""``offsider routes``: explain the queue of a job, and find ineffective routing rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import click

from offsider.cli.command import APPLICATION, MOST_LETTERS, SETTINGS, Connection, connected
from offsider.cli.queues import served_queues
from offsider.cli.shards import served_by_shards
from offsider.cli.text import plain
from offsider.config.config import DEFAULT, Config
from offsider.config.installation import Installation
from offsider.config.queue_spec import parse_all
from offsider.config.routing import route
from offsider.config.shards import Destination
from offsider.core.errors import UnknownJob
from offsider.core.suggestions import suggest
from offsider.core.wording import counted
from offsider.inspector import rules_in_use
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.rule_check import check_rules


@click.group(context_settings=SETTINGS)
def routes() -> None:
    """Show where routing rules send jobs, and check the rules."""


@routes.command(context_settings=SETTINGS)
@click.argument("name")
@APPLICATION
@connected()
def explain(connection: Connection, name: str) -> None:
    """Show the queue of the job NAME, and the rule that chose it."""
    config = connection.load_declarations()
    click.echo("\n".join(plain(line, MOST_LETTERS) for line in explained(_find(name), config)))


def explained(job: Declared, config: Config) -> list[str]:
    """Return lines: the queue, the rule, the rules before it, and the characteristics of the job."""
    rules = config.routing.rules
    routed = route(job, rules, config.jobs)
    lines = [
        f"{job.name} goes to {Destination(routed.server, routed.queue)}",
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
def check(connection: Connection, queue: tuple[str, ...], *, live: bool) -> int:
    """Find rules that never match first, values that no job has, and queues that no worker serves.

    The exit code is 1 if there are any. Unknown predicates are errors in every command that reads the rules.
    """
    config = connection.load_declarations()
    rules, jobs = config.routing.rules, registry.all_jobs()
    wrong = check_rules(rules, jobs, config.jobs, _served(config, queue, live=live))
    wrong += _other_rules(config) if live else []
    for sentence in wrong:
        click.echo(plain(sentence, MOST_LETTERS))
    if not wrong:
        click.echo(f"{counted(len(rules), 'rule')} for {counted(len(jobs), 'job')}: all is well ({rules.digest})")
    return 1 if wrong else 0


def _other_rules(config: Config) -> list[str]:
    own = config.routing.rules.digest
    others = [used for used in rules_in_use(config) if used.rules != own]
    return [f"these rules are {own}, but {', '.join(used.users)} use other rules ({used.rules})" for used in others]


def _served(config: Config, given: Sequence[str], *, live: bool) -> Mapping[str, Collection[str]]:
    """Return the served queues by server."""
    if live:
        return {server: served_queues(Installation.of(config, server)) for server in config.servers}
    if given:
        names = {spec.name for name in given for spec in parse_all([name])}
        return dict.fromkeys(config.servers, names)
    if config.shards:
        return served_by_shards(config)
    groups = [spec for group in config.worker.groups for spec in group.split()]
    # The processes of a supervisor serve its groups instead of the worker's own queues.
    capsules = [capsule for name, capsule in config.capsules.items() if not groups or name != DEFAULT]
    specs = [*groups, *(queue for capsule in capsules for queue in capsule.queues)]
    return {config.server: {spec.name for name in specs for spec in parse_all([name])}}


def _find(name: str) -> Declared:
    try:
        return registry.find(name)
    except UnknownJob:
        known = sorted(registry.names())
        raise UnknownJob(name, f"unknown job {name!r}{suggest(name, known)}") from None
