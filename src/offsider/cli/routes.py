"""``offsider routes``: where routing rules send jobs and why, and which rules are of no use."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence

import click

from offsider.cli.connection import SETTINGS
from offsider.cli.declarations import application_options, load_declarations
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.cli.shards import served_by_shards
from offsider.core.errors import OffsiderError, UnknownJob
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.rule_check import check_rules
from offsider.wiring.config import DEFAULT, Config
from offsider.wiring.nearest import suggest
from offsider.wiring.queue_spec import parse_all
from offsider.wiring.routing import route
from offsider.wiring.shards import Destination


@click.group(context_settings=SETTINGS)
def routes() -> None:
    """Show where routing rules send jobs, and check the rules."""


@routes.command(context_settings=SETTINGS)
@click.argument("name")
@application_options
def explain(name: str, require: tuple[str, ...], config: str | None, environment: str | None) -> None:
    """Show the queue of the job NAME, and the rule that has sent it there."""
    try:
        loaded = load_declarations(require, config, environment)
        job = _find(name)
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    click.echo("\n".join(plain(line, most=500) for line in explained(job, loaded)))


def explained(job: Declared, config: Config) -> list[str]:
    """The queue, the rule, the rules before it, and what the job says of itself."""
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
    return f"{without}: the queue named after it" if rules else f"{without}: the default queue"


@routes.command(context_settings=SETTINGS)
@application_options
@click.option(
    "-q",
    "--queue",
    multiple=True,
    metavar="NAME",
    help="A queue that workers serve, in place of those of the configuration; may be given several times.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Ask the servers which queues running workers serve, and by which rules programs route.",
)
def check(
    require: tuple[str, ...], config: str | None, environment: str | None, queue: tuple[str, ...], *, live: bool
) -> None:
    """Find rules that never win, values that no job has, and queues that nobody serves.

    The exit code is 1 when there is one of them. Predicates that do not exist are errors wherever rules are read.
    """
    try:
        loaded = load_declarations(require, config, environment)
        wrong = check_rules(loaded.routing.rules, registry.all_jobs(), loaded.jobs, _served(loaded, queue, live=live))
        wrong += _other_rules(loaded) if live else []
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    for sentence in wrong:
        click.echo(plain(sentence, most=500))
    if not wrong:
        rules, jobs = loaded.routing.rules, registry.all_jobs()
        click.echo(f"{counted(len(rules), 'rule')} for {counted(len(jobs), 'job')}: all is well ({rules.digest})")
    sys.exit(1 if wrong else 0)


def _other_rules(config: Config) -> list[str]:
    from offsider.inspector import rules_in_use

    own = config.routing.rules.digest
    others = [used for used in rules_in_use(config) if used.rules != own]
    return [f"these rules are {own}, and others ({used.rules}) are those of {', '.join(used.users)}" for used in others]


def _served(config: Config, given: Sequence[str], *, live: bool) -> Mapping[str, Collection[str]]:
    """Server -> the queues that are served there."""
    if live:
        from offsider.cli.queues import served_queues

        return {server: served_queues(config.for_server(server)) for server in config.servers}
    if given:
        names = {spec.name for name in given for spec in parse_all([name])}
        return dict.fromkeys(config.servers, names)
    if config.shards:
        return served_by_shards(config)
    groups = [spec for group in config.worker.groups for spec in group.split()]
    # The processes of a supervisor serve its groups in place of the worker's own queues.
    capsules = [capsule for name, capsule in config.capsules.items() if not groups or name != DEFAULT]
    specs = [*groups, *(queue for capsule in capsules for queue in capsule.queues)]
    return {config.server: {spec.name for name in specs for spec in parse_all([name])}}


def _find(name: str) -> Declared:
    try:
        return registry.find(name)
    except UnknownJob:
        known = sorted(registry.names())
        raise UnknownJob(name, f"no job is called {name!r}{suggest(name, known)}") from None
