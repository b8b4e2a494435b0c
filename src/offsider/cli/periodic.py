"""``offsider periodic``: the periodic jobs, whether their register is right, and acting on them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.application import load_application
from offsider.cli.connection import SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.plain import plain
from offsider.core.errors import OffsiderError, RedisFailure
from offsider.core.wording import counted

if TYPE_CHECKING:
    from offsider.ext.periodic import PeriodicJob, PeriodicJobs
    from offsider.wiring.config import Config

REQUIRE = click.option(
    "-r", "--require", metavar="MODULE", multiple=True, help="The application, as for `offsider worker`. Repeatable."
)
JSON = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True)
RUNS = 5
_TIME = "%Y-%m-%d %H:%M:%S %z"


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@click.pass_context
def periodic(context: click.Context, config: str | None, environment: str | None) -> None:
    """Look at periodic jobs, check them, and run, pause, resume or remove some. Without a word it lists them.

    Shown are the jobs of running workers, those that were added at run time, and with -r those of an application:
    those of all servers of the configuration.
    """
    context.obj = (config, environment)
    if context.invoked_subcommand is None:
        context.invoke(list_, require=(), as_json=False)


@periodic.command("list", context_settings=SETTINGS)
@REQUIRE
@JSON
@click.pass_obj
def list_(connection: tuple[str | None, str | None], require: tuple[str, ...], *, as_json: bool) -> None:
    """Show all periodic jobs with their next tick."""

    def show(jobs: PeriodicJobs) -> Mapping[str, RedisFailure]:
        every, away = jobs.look()
        click.echo(json.dumps([_data(each) for each in every], indent=2) if as_json else _table(every))
        return away

    sys.exit(_with_jobs(connection, require, show))


@periodic.command(context_settings=SETTINGS)
@click.argument("name")
@REQUIRE
@JSON
@click.pass_obj
def show(connection: tuple[str | None, str | None], name: str, require: tuple[str, ...], *, as_json: bool) -> None:
    """Show one periodic job: its expression in words, its next ticks in its time zone, its history."""

    def tell(jobs: PeriodicJobs) -> Mapping[str, RedisFailure]:
        job = jobs[name]
        history = [asdict(line) for line in job.history()]
        click.echo(json.dumps(_data(job) | {"history": history}, indent=2) if as_json else _sheet(job))
        return {}

    sys.exit(_with_jobs(connection, require, tell))


@periodic.command(context_settings=SETTINGS)
@REQUIRE
@click.option("--foreign", is_flag=True, help="Jobs that are declared nowhere here are right: they run elsewhere.")
@click.pass_obj
def check(connection: tuple[str | None, str | None], require: tuple[str, ...], *, foreign: bool) -> None:
    """Check what an application registers, in code and in the configuration file, without Redis. For CI."""
    sys.exit(_check(connection, require, foreign=foreign))


@periodic.command(context_settings=SETTINGS)
@NAMES
@REQUIRE
@click.pass_obj
def run(connection: tuple[str | None, str | None], names: tuple[str, ...], require: tuple[str, ...]) -> None:
    """Push these jobs now, whatever the time."""
    sys.exit(_act(connection, require, names, _run))


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Let the ticks of these jobs push nothing, until they are resumed."""
    sys.exit(_act(connection, (), names, lambda job: "paused" if job.pause() else "was paused already"))


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Let these jobs go on with their next tick."""
    sys.exit(_act(connection, (), names, lambda job: "goes on" if job.resume() else "was not paused"))


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def remove(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Remove jobs that were added at run time."""

    def act(job: PeriodicJob) -> str:
        job.remove()
        return "removed"

    sys.exit(_act(connection, (), names, act))


def _run(job: PeriodicJob) -> str:
    jid = job.run()
    return f"pushed {jid}" if jid else "client middleware stopped the job"


# ------------------------------------------------------------------------------------------ doing it


def _with_jobs(
    connection: tuple[str | None, str | None],
    require: Sequence[str],
    act: Callable[[PeriodicJobs], Mapping[str, RedisFailure]],
) -> int:
    """Do something with the periodic jobs, which answers the servers that are away; answers the exit code."""
    from offsider.ext.periodic import PeriodicJobs

    try:
        away = act(PeriodicJobs(_configured(connection, require)))
    except OffsiderError as error:
        return give_up(str(error))
    for server, why in away.items():
        give_up(f"the periodic jobs of {server} are left out: {why}")
    return 1 if away else 0


def _act(
    connection: tuple[str | None, str | None],
    require: Sequence[str],
    names: Sequence[str],
    act: Callable[[PeriodicJob], str],
) -> int:
    def all_of_them(jobs: PeriodicJobs) -> Mapping[str, RedisFailure]:
        every, away = jobs.look()
        found: list[PeriodicJob] = []
        for name in names:  # none is touched when one of them does not exist
            # While a deploy moves a job to another server it is on both.
            found += [job for job in every if job.name == name] or [jobs[name]]
        for job in found:
            click.echo(f"{_called(job, jobs)}: {act(job)}")
        return away

    return _with_jobs(connection, require, all_of_them)


def _called(job: PeriodicJob, jobs: PeriodicJobs) -> str:
    return f"{job.name} on {job.server}" if jobs.on_several_servers else job.name


def _configured(connection: tuple[str | None, str | None], require: Sequence[str]) -> Config:
    config = load(*connection)
    load_application(require, config)
    return config


def _check(connection: tuple[str | None, str | None], require: Sequence[str], *, foreign: bool) -> int:
    from offsider.ext.periodic.examination import examine

    try:
        config = load(*connection)
        load_application(require or config.worker.require, config)
        examined = examine(config, foreign=foreign)
    except OffsiderError as error:
        return give_up(str(error))
    for entry, problem in examined:
        following = entry.ticks.next_after(datetime.now().timestamp())  # noqa: DTZ005 - a number without a zone
        when = "" if following is None else f"{entry.ticks.local(following):{_TIME}}"
        click.echo(f"{entry.name}: {problem}" if problem else f"{entry.name}: {entry.cron} {entry.tz}, next {when}")
    wrong = sum(1 for _, problem in examined if problem)
    click.echo(f"{counted(len(examined), 'periodic job')}, {wrong} wrong")
    return 1 if wrong else 0


# ------------------------------------------------------------------------------------------ showing


def _data(job: PeriodicJob) -> dict[str, Any]:
    entry = job.entry
    return {
        "name": entry.name,
        "server": job.server,
        "cron": entry.cron,
        "tz": entry.tz,
        "job": entry.job,
        "args": list(entry.args),
        "kwargs": dict(entry.kwargs),
        "queue": entry.queue,
        "description": entry.description,
        "source": entry.source,
        "paused": job.paused,
        "versions": job.versions,
        "next": [when.isoformat() for when in job.next_runs(RUNS)],
        "last": asdict(job.last) if job.last is not None else None,
    }


def _marks(job: PeriodicJob) -> str:
    marks = ["paused"] if job.paused else []
    marks += [] if job.versions else ["no worker"]
    return ", ".join(marks + (["processes differ"] if job.versions > 1 else []))


def _table(jobs: Sequence[PeriodicJob]) -> str:
    several = len({job.server for job in jobs}) > 1
    rows = [["NAME", "CRON", "ZONE", "JOB", "NEXT", *(["SERVER"] if several else []), ""]]
    for job in jobs:
        following = "" if job.paused else next((f"{when:{_TIME}}" for when in job.next_runs(1)), "")
        entry = job.entry
        cells = [entry.name, plain(entry.cron), entry.tz, plain(entry.job), following]
        rows.append([*cells, *([job.server] if several else []), _marks(job)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _sheet(job: PeriodicJob) -> str:
    entry = job.entry
    lines = [
        f"{entry.name}: {plain(entry.description)}" if entry.description else entry.name,
        f"  {plain(entry.cron)} {entry.tz}: {entry.ticks.words}",
        f"  {plain(entry.job)}, queue {entry.queue or 'of the job'}, registered in {entry.source}",
        *([f"  {_marks(job)}"] if _marks(job) else []),
        "next",
        *(f"  {when:{_TIME}}" for when in job.next_runs(RUNS)),
        "history",
    ]
    for line in job.history():
        what = f"{line.how} {line.count}" if line.count else line.how
        lines.append(f"  {entry.ticks.local(line.tick):{_TIME}}  {what}  {line.jid}  {plain(line.by)}".rstrip())
    return "\n".join(lines)
