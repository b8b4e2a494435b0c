"""``offsider shards``: what each group of workers serves, and whether every job finds one that serves it."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from offsider.cli.connection import SETTINGS
from offsider.cli.declarations import application_options, load_declarations
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.jobs.shard_check import ShardPlan, plan_shards, served_by, worth_knowing, wrong_with
from offsider.wiring.config import DEFAULT, Config
from offsider.wiring.shards import routes_of

MOST_LETTERS = 500
NO_SHARDS = "the configuration has no shards: each is a table [shards.NAME] with queues or select"


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@click.pass_context
def shards(context: click.Context) -> None:
    """Show what each shard serves, and check that every queue has one.

    Without a word it lists the shards.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_, require=(), config=None, environment=None, as_json=False)


@shards.command("list", context_settings=SETTINGS)
@application_options
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for programs.")
def list_(require: tuple[str, ...], config: str | None, environment: str | None, *, as_json: bool) -> None:
    """Show each shard: its server, its queues, and the declared jobs that go there."""
    try:
        loaded = load_declarations(require, config, environment)
        plans = _plans(loaded)
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    if as_json:
        click.echo(json.dumps([_data(plan, loaded) for plan in plans], indent=2))
        return
    for plan in plans:
        click.echo("\n".join(plain(line, MOST_LETTERS) for line in _told(plan, loaded)))


@shards.command(context_settings=SETTINGS)
@application_options
def check(require: tuple[str, ...], config: str | None, environment: str | None) -> None:
    """Find queues that no shard serves, and shards that serve nothing or work for another server than the rules name.

    The exit code is 1 when there is one of them. Queues of two shards, and queues that no declared job goes to, are
    told, and are no error.
    """
    try:
        loaded = load_declarations(require, config, environment)
        plans = _plans(loaded)
    except OffsiderError as error:
        sys.exit(give_up(str(error)))
    found = routes_of(loaded).destinations()
    wrong = [*wrong_with(plans, found, _of_capsules(loaded))]
    for sentence in wrong:
        click.echo(plain(f"error: {sentence}", MOST_LETTERS))
    for sentence in worth_knowing(plans, found):
        click.echo(plain(f"note: {sentence}", MOST_LETTERS))
    if not wrong:
        jobs = counted(len(registry.all_jobs()), "job")
        click.echo(f"{counted(len(plans), 'shard')} for {counted(len(found), 'queue')} of {jobs}: all is well")
    sys.exit(1 if wrong else 0)


def served_by_shards(config: Config) -> Mapping[str, Collection[str]]:
    """Server -> the queues that its shards serve; the jobs are declared."""
    return served_by(_plans(config), _of_capsules(config))


def _plans(config: Config) -> list[ShardPlan]:
    if not config.shards:
        raise ConfigurationError(NO_SHARDS)
    return plan_shards(config.shards, routes_of(config))


def _of_capsules(config: Config) -> set[str]:
    """What every worker serves beside the queues of its shard."""
    return {spec.name for name, capsule in config.capsules.items() if name != DEFAULT for spec in capsule.specs}


def _told(plan: ShardPlan, config: Config) -> list[str]:
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
