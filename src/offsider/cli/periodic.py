"""``offsider periodic``: list, check, run, pause, resume and remove periodic jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.application import load_application
from offsider.cli.command import SETTINGS, connection_options, load
from offsider.cli.failure import give_up
from offsider.cli.text import aligned, plain
from offsider.core.errors import OffsiderError, RedisFailure
from offsider.core.wording import counted
from offsider.ext.periodic import PeriodicJobs
from offsider.ext.periodic.registry import examine

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.ext.periodic import PeriodicJob

REQUIRE = click.option(
    "-r", "--require", metavar="MODULE", multiple=True, help="Application, as for `offsider worker`. Repeatable."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True)
RUNS = 5
_TIME = "%Y-%m-%d %H:%M:%S %z"


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connection_options
@click.pass_context
def periodic(context: click.Context, config: str | None, environment: str | None) -> None:
    """Show, check, run, pause, resume or remove periodic jobs. Without a subcommand it lists them.

    The list has the jobs of running workers, the jobs added at run time and, with -r, the jobs of an application, for
    all servers of the configuration.
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
    """Show one periodic job: its schedule in words, its next ticks in its time zone, its history."""

    def tell(jobs: PeriodicJobs) -> Mapping[str, RedisFailure]:
        job = jobs[name]
        history = [asdict(line) for line in job.history()]
        click.echo(json.dumps(_data(job) | {"history": history}, indent=2) if as_json else _sheet(job))
        return {}

    sys.exit(_with_jobs(connection, require, tell))


@periodic.command(context_settings=SETTINGS)
@REQUIRE
@click.option("--foreign", is_flag=True, help="Accept jobs that this application does not declare: they run elsewhere.")
@click.pass_obj
def check(connection: tuple[str | None, str | None], require: tuple[str, ...], *, foreign: bool) -> None:
    """Check the periodic jobs in code and in the configuration file, without Redis. For CI."""
    sys.exit(_check(connection, require, foreign=foreign))


@periodic.command(context_settings=SETTINGS)
@NAMES
@REQUIRE
@click.pass_obj
def run(connection: tuple[str | None, str | None], names: tuple[str, ...], require: tuple[str, ...]) -> None:
    """Push these jobs now, outside of their schedule."""
    sys.exit(_act(connection, require, names, _run))


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Pause these jobs: their ticks push nothing until you resume them."""
    sys.exit(_act(connection, (), names, lambda job: "paused" if job.pause() else "already paused"))


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Resume these jobs from their next tick."""
    sys.exit(_act(connection, (), names, lambda job: "resumed" if job.resume() else "was not paused"))


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def remove(connection: tuple[str | None, str | None], names: tuple[str, ...]) -> None:
    """Remove jobs added at run time."""

    def act(job: PeriodicJob) -> str:
        job.remove()
        return "removed"

    sys.exit(_act(connection, (), names, act))


def _run(job: PeriodicJob) -> str:
    jid = job.run()
    return f"pushed {jid}" if jid else "client middleware stopped the job"


# ------------------------------------------------------------------------------------------ running


def _with_jobs(
    connection: tuple[str | None, str | None],
    require: Sequence[str],
    act: Callable[[PeriodicJobs], Mapping[str, RedisFailure]],
) -> int:
    """Call `act`, report the unreachable servers that it returns, and return the exit code."""
    try:
        away = act(PeriodicJobs(_configured(connection, require)))
    except OffsiderError as error:
        return give_up(str(error))
    for server, why in away.items():
        give_up(f"cannot read the periodic jobs of {server}: {why}")
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
        for name in names:  # check all names before the first change
            # During a deploy that moves a job to another server, both servers have it.
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
    try:
        config = load(*connection)
        load_application(require or config.worker.require, config)
        examined = examine(config, foreign=foreign)
    except OffsiderError as error:
        return give_up(str(error))
    for entry, problem in examined:
        following = entry.ticks.next_after(datetime.now().timestamp())  # noqa: DTZ005 - a timestamp has no zone
        when = "" if following is None else f"{entry.ticks.local(following):{_TIME}}"
        click.echo(f"{entry.name}: {problem}" if problem else f"{entry.name}: {entry.cron} {entry.tz}, next {when}")
    wrong = sum(1 for _, problem in examined if problem)
    click.echo(f"{counted(len(examined), 'periodic job')}, {wrong} wrong")
    return 1 if wrong else 0


# ------------------------------------------------------------------------------------------ output


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
    return "\n".join(aligned(rows))


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
