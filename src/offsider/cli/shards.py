"""``offsider shards``: show what each shard serves, and check that every queue has a shard."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from offsider.cli.command import APPLICATION, JSON, MOST_LETTERS, SETTINGS, Connection, connected, print_json
from offsider.cli.text import plain
from offsider.config.config import DEFAULT, Config
from offsider.config.shards import routes_of
from offsider.core.errors import ConfigurationError
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.jobs.shard_check import ShardPlan, plan_shards, served_by, worth_knowing, wrong_with

NO_SHARDS = "the configuration has no shards: each is a table [shards.NAME] with queues or select"


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@click.pass_context
def shards(context: click.Context) -> None:
    """Show what each shard serves, and check that every queue has one.

    Without a subcommand it lists the shards.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_)


@shards.command("list", context_settings=SETTINGS)
@APPLICATION
@connected()
@JSON
def list_(connection: Connection, *, as_json: bool) -> None:
    """Show each shard: its server, its queues, and their declared jobs."""
    config = connection.load_declarations()
    plans = _plans(config)
    if as_json:
        print_json([_data(plan, config) for plan in plans])
        return
    for plan in plans:
        click.echo("\n".join(plain(line, MOST_LETTERS) for line in _lines(plan, config)))


@shards.command(context_settings=SETTINGS)
@APPLICATION
@connected()
def check(connection: Connection) -> int:
    """Find queues that no shard serves, shards without queues, and shards on another server than the rules choose.

    The exit code is 1 if there are any. Queues of two shards, and queues without a declared job, are notes, not
    errors.
    """
    config = connection.load_declarations()
    plans = _plans(config)
    found = routes_of(config).destinations()
    wrong = [*wrong_with(plans, found, _of_capsules(config))]
    for sentence in wrong:
        click.echo(plain(f"error: {sentence}", MOST_LETTERS))
    for sentence in worth_knowing(plans, found):
        click.echo(plain(f"note: {sentence}", MOST_LETTERS))
    if not wrong:
        jobs = counted(len(registry.all_jobs()), "job")
        click.echo(f"{counted(len(plans), 'shard')} for {counted(len(found), 'queue')} of {jobs}: all is well")
    return 1 if wrong else 0


def served_by_shards(config: Config) -> Mapping[str, Collection[str]]:
    """Return the queues of all shards by server; the jobs must be declared."""
    return served_by(_plans(config), _of_capsules(config))


def _plans(config: Config) -> list[ShardPlan]:
    if not config.shards:
        raise ConfigurationError(NO_SHARDS)
    return plan_shards(config.shards, routes_of(config))


def _of_capsules(config: Config) -> set[str]:
    """Return the queues that every worker serves in addition to those of its shard."""
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
