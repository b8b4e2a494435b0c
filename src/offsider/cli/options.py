"""The options of ``offsider worker``, and what they become: settings that override files and the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from offsider import __version__
from offsider.core.errors import ConfigurationError, InvalidQuery
from offsider.core.query import Query
from offsider.wiring.config import Config
from offsider.wiring.settings import by_name

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class WorkerOptions:
    """The command line of a worker as it was typed; empty means not given."""

    require: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    concurrency: str | None = None
    config: str | None = None
    environment: str | None = None
    tag: str | None = None
    timeout: str | None = None
    verbose: bool = False
    embedded: bool = False
    reload: bool = False
    no_keeper: bool = False
    health: str | None = None
    processes: str | None = None
    preload: bool = False
    group: tuple[str, ...] = ()
    shard: str | None = None
    select: tuple[str, ...] = ()
    negate: bool = False
    dry_run: bool = False
    list_queues: bool = False

    def overrides(self) -> dict[str, object]:
        """Settings by name. Their values are checked where all others are."""
        texts = {
            "concurrency": self.concurrency,
            "environment": self.environment,
            "tag": self.tag,
            "timeout_seconds": self.timeout,
            "health": self.health,
            "processes": self.processes,
            "shard": self.shard,
        }
        settings: dict[str, object] = {
            name: by_name()[name].kind.parse(text) for name, text in texts.items() if text is not None
        }
        given: Mapping[str, object] = {
            "require": self.require,
            "queues": self.queue,
            "reload": self.reload,
            "preload": self.preload,
            "groups": self.group,
        }
        settings |= {name: value for name, value in given.items() if value}
        # Queues that a query selects stand in the place of whatever else says which queues are served.
        settings |= {"queues": (), "groups": ()} if self.select else {}
        settings |= {"keeper": False} if self.no_keeper else {}
        return settings | ({"level": "debug"} if self.verbose else {})

    def load_config(self, *, beside: Path | None = None) -> Config:
        """The configuration by command line, environment, file and defaults.

        Raises:
            ConfigurationError: as in `Config.load`, or options contradict each other.
        """
        self._check()
        return Config.load(self.config, beside=beside, overrides=self.overrides(), for_worker=True)

    def queries(self) -> list[Query]:
        """What ``--select`` was given. Raises ConfigurationError, with the place of what is wrong."""
        try:
            return [Query.parse(text) for text in self.select]
        except InvalidQuery as error:
            raise ConfigurationError(f"--select: {error}") from None

    def _check(self) -> None:
        self.queries()
        if self.select and (self.queue or self.group):
            raise ConfigurationError("--select finds the queues: leave -q and -G out")
        if self.negate and not self.select:
            raise ConfigurationError("--negate is for --select: all queues but those of the chosen jobs")


def worker_options(function: Function) -> Function:
    """Add the options of a worker to a click command."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


OPTIONS = (
    click.option(
        "-r", "--require", multiple=True, metavar="APP",
        help="The application: a module, a .py file or a folder. May be given several times.",
    ),
    click.option(
        "-q", "--queue", multiple=True, metavar="NAME[,WEIGHT]",
        help="A queue to serve; may be given several times, '*' is every queue there is. Without weights the order "
        "is strict; with weights a queue is looked at first as often as its weight says. Default: default.",
    ),
    click.option(
        "--shard", metavar="NAME",
        help="Serve this shard of the configuration: its queues, concurrency, processes, mode and server. Other "
        "options win over what it says.",
    ),
    click.option(
        "--select", multiple=True, metavar="QUERY",
        help="Serve the queues that the jobs this query chooses are sent to, for example 'urgency=high'. With several "
        "queries those of each.",
    ),
    click.option(
        "--negate", is_flag=True, help="With --select: serve the queues of all declared jobs, but those."
    ),
    click.option(
        "-c", "--concurrency", metavar="N",
        help="How many jobs run at a time. Default: RAILS_MAX_THREADS or 5.",
    ),
    click.option(
        "-C", "--config", metavar="FILE",
        help="The configuration file. Default: offsider.toml, pyproject.toml or config/sidekiq.yml, here or beside "
        "the application.",
    ),
    click.option(
        "-e", "--environment", metavar="NAME",
        help="Default: OFFSIDER_ENV, APP_ENV, RAILS_ENV, RACK_ENV or development.",
    ),
    click.option("-g", "--tag", metavar="TAG", help="Shown in the process title and the web page."),
    click.option(
        "-t", "--timeout", metavar="SECONDS",
        help="How long running jobs may go on after a stop was asked for. Default: 25.",
    ),
    click.option(
        "-p", "--processes", metavar="N",
        help="Have a supervisor fork so many processes, each with all threads; 'auto' is one per core. Default: one "
        "process without a supervisor.",
    ),
    click.option(
        "-G", "--group", multiple=True, metavar="'NAME[,WEIGHT] ...'",
        help="Queues for one process of a supervisor; may be given several times. Without --processes there is one "
        "process for each.",
    ),
    click.option("--preload", is_flag=True, help="With --processes: load the application once, before the fork."),
    click.option("-v", "--verbose", is_flag=True, help="Log at the level debug, and show whole tracebacks."),
    click.option(
        "--embedded", is_flag=True, help="Start a Valkey server for this worker, for development. Data in .offsider."
    ),
    click.option("--reload", is_flag=True, help="Start anew when a source file changes, for development."),
    click.option(
        "--no-keeper", is_flag=True,
        help="No process beside the worker that beats for it while a job holds the interpreter.",
    ),
    click.option(
        "--health", metavar="HOST:PORT",
        help="Answer /live, /ready and /metrics over HTTP there, for a platform. Default: nowhere.",
    ),
    click.option(
        "--dry-run", is_flag=True,
        help="Only show what would run: processes, capsules, queues, server. The application is loaded, Redis is not "
        "asked.",
    ),
    click.option("--list-queues", is_flag=True, help="Only show the queues that would be served, one a line."),
    click.version_option(__version__, "-V", "--version", message="offsider %(version)s"),
)  # fmt: skip
