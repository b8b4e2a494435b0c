"""``offsider periodic``: list, check, run, pause, resume and remove periodic jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from offsider.cli.application import load_application
from offsider.cli.command import JSON, SETTINGS, ConnectionOptions, connected, print_json, report_failed_servers
from offsider.cli.text import aligned, say
from offsider.core.wording import counted
from offsider.ext.periodic import PeriodicJobs
from offsider.ext.periodic.registry import examine

if TYPE_CHECKING:
    from offsider.core.errors import RedisFailure
    from offsider.ext.periodic import PeriodicJob

REQUIRE = click.option(
    "-r", "--require", metavar="MODULE", multiple=True, help="Application, as for `offsider worker`. Repeatable."
)
NAMES = click.argument("names", metavar="NAME...", nargs=-1, required=True)
RUNS = 5
_TIME = "%Y-%m-%d %H:%M:%S %z"


@click.group(context_settings=SETTINGS, invoke_without_command=True)
@connected()
@click.pass_context
def periodic(context: click.Context, connection: ConnectionOptions) -> object:
    """Show, check, run, pause, resume or remove periodic jobs. Without a subcommand it lists them.

    The list has the jobs of running workers, the jobs added at run time and, with -r, the jobs of an application, for
    all servers of the configuration.
    """
    context.obj = connection
    return context.invoke(list_) if context.invoked_subcommand is None else None


@periodic.command("list", context_settings=SETTINGS)
@REQUIRE
@JSON
@click.pass_obj
def list_(connection: ConnectionOptions, require: tuple[str, ...], *, as_json: bool) -> int:
    """Show all periodic jobs with their next tick."""
    every, away = _jobs(connection, require).look()
    if as_json:
        print_json([_data(each) for each in every])
    else:
        say(*_table(every))
    return _report(away)


@periodic.command(context_settings=SETTINGS)
@click.argument("name")
@REQUIRE
@JSON
@click.pass_obj
def show(connection: ConnectionOptions, name: str, require: tuple[str, ...], *, as_json: bool) -> None:
    """Show one periodic job: its schedule in words, its next ticks in its time zone, its history."""
    job = _jobs(connection, require)[name]
    if as_json:
        print_json(_data(job) | {"history": [*job.history()]})
    else:
        say(*_sheet(job))


@periodic.command(context_settings=SETTINGS)
@REQUIRE
@click.option("--foreign", is_flag=True, help="Accept jobs that this application does not declare: they run elsewhere.")
@click.pass_obj
def check(connection: ConnectionOptions, require: tuple[str, ...], *, foreign: bool) -> int:
    """Check the periodic jobs in code and in the configuration file, without Redis. For CI."""
    examined = examine(replace(connection, require=require).load_application(), foreign=foreign)
    for entry, problem in examined:
        following = entry.ticks.next_after(datetime.now().timestamp())  # noqa: DTZ005 - a timestamp has no zone
        when = "" if following is None else f"{entry.ticks.local(following):{_TIME}}"
        say(f"{entry.name}: {problem}" if problem else f"{entry.name}: {entry.cron} {entry.tz}, next {when}")
    wrong = sum(1 for _, problem in examined if problem)
    say(f"{counted(len(examined), 'periodic job')}, {wrong} wrong")
    return 1 if wrong else 0


@periodic.command(context_settings=SETTINGS)
@NAMES
@REQUIRE
@click.pass_obj
def run(connection: ConnectionOptions, names: tuple[str, ...], require: tuple[str, ...]) -> int:
    """Push these jobs now, outside their schedule."""

    def act(job: PeriodicJob) -> str:
        jid = job.run()
        return f"pushed {jid}" if jid else "client middleware canceled the push"

    return _act(_jobs(connection, require), names, act)


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def pause(connection: ConnectionOptions, names: tuple[str, ...]) -> int:
    """Pause these jobs: their ticks push nothing until you resume them."""
    return _act(_jobs(connection), names, lambda job: "paused" if job.pause() else "already paused")


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def resume(connection: ConnectionOptions, names: tuple[str, ...]) -> int:
    """Resume these jobs from their next tick."""
    return _act(_jobs(connection), names, lambda job: "resumed" if job.resume() else "was not paused")


@periodic.command(context_settings=SETTINGS)
@NAMES
@click.pass_obj
def remove(connection: ConnectionOptions, names: tuple[str, ...]) -> int:
    """Remove jobs added at run time."""

    def act(job: PeriodicJob) -> str:
        job.remove()
        return "removed"

    return _act(_jobs(connection), names, act)


# ------------------------------------------------------------------------------------------ running


def _jobs(connection: ConnectionOptions, require: Sequence[str] = ()) -> PeriodicJobs:
    config = connection.load()
    load_application(require, config)
    return PeriodicJobs(config)


def _act(jobs: PeriodicJobs, names: Sequence[str], act: Callable[[PeriodicJob], str]) -> int:
    every, away = jobs.look()
    found: list[PeriodicJob] = []
    for name in names:  # check all names before the first change
        # During a deploy that moves a job to another server, both servers have it.
        found += [job for job in every if job.name == name] or [jobs[name]]
    for job in found:
        called = f"{job.name} on {job.server}" if jobs.on_several_servers else job.name
        say(f"{called}: {act(job)}")
    return _report(away)


def _report(away: Mapping[str, RedisFailure]) -> int:
    return report_failed_servers(away, "cannot read the periodic jobs of")


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


def _table(jobs: Sequence[PeriodicJob]) -> list[str]:
    several = len({job.server for job in jobs}) > 1
    rows = [["NAME", "CRON", "ZONE", "JOB", "NEXT", *(["SERVER"] if several else []), ""]]
    for job in jobs:
        following = "" if job.paused else next((f"{when:{_TIME}}" for when in job.next_runs(1)), "")
        entry = job.entry
        cells = [entry.name, entry.cron, entry.tz, entry.job, following]
        rows.append([*cells, *([job.server] if several else []), _marks(job)])
    return aligned(rows)


def _sheet(job: PeriodicJob) -> list[str]:
    entry = job.entry
    lines = [
        f"{entry.name}: {entry.description}" if entry.description else entry.name,
        f"  {entry.cron} {entry.tz}: {entry.ticks.words}",
        f"  {entry.job}, queue {entry.queue or 'of the job'}, registered in {entry.source}",
        *([f"  {_marks(job)}"] if _marks(job) else []),
        "next",
        *(f"  {when:{_TIME}}" for when in job.next_runs(RUNS)),
        "history",
    ]
    for line in job.history():
        what = f"{line.how} {line.count}" if line.count else line.how
        lines.append(f"  {entry.ticks.local(line.tick):{_TIME}}  {what}  {line.jid}  {line.by}".rstrip())
    return lines
