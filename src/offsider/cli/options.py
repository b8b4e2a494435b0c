"""The options of ``offsider worker``, as settings that override files and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from offsider.cli.application import folder_beside, has_application
from offsider.config.config import Config
from offsider.config.default import set_worker_config
from offsider.config.settings import by_name
from offsider.core.characteristics import Query
from offsider.core.errors import ConfigurationError, InvalidQuery

EMBEDDED_FOLDER = ".offsider"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker as typed; empty means not given."""

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
    health: str | None = None
    processes: str | None = None
    shard: str | None = None
    select: tuple[str, ...] = ()
    negate: bool = False
    dry_run: bool = False
    list_queues: bool = False

    def overrides(self) -> dict[str, object]:
        """Return the settings by name. `Config.load` validates their values."""
        texts = {name: getattr(self, name) for name in ("concurrency", "environment", "tag", "health", "processes")}
        texts |= {"shard": self.shard, "timeout_seconds": self.timeout}
        settings: dict[str, object] = {
            name: by_name()[name].kind.parse(text) for name, text in texts.items() if text is not None
        }
        given: Mapping[str, object] = {"require": self.require, "queues": self.queue, "reload": self.reload}
        settings |= {name: value for name, value in given.items() if value}
        # The queues that --select chooses replace the queues of all other settings.
        settings |= {"queues": ()} if self.select else {}
        return settings | ({"level": "debug"} if self.verbose else {})

    def load_config(self, *, beside: Path | None = None) -> Config:
        """Load the configuration from command line, environment, file and defaults.

        Raises:
            ConfigurationError: as in `Config.load`, or if options contradict each other.
        """
        self._check()
        return Config.load(self.config, beside=beside, overrides=self.overrides(), for_worker=True)

    def queries(self) -> list[Query]:
        """Parse the queries of ``--select``. Raises ConfigurationError with the position of the error."""
        try:
            return [Query.parse(text) for text in self.select]
        except InvalidQuery as error:
            raise ConfigurationError(f"--select: {error}") from None

    def _check(self) -> None:
        self.queries()
        if self.select and self.queue:
            raise ConfigurationError("--select chooses the queues: it cannot be combined with -q")
        if self.negate and not self.select:
            raise ConfigurationError("--negate requires --select: it inverts the selection")


def configured(options: WorkerOptions) -> Config:
    """Return the configuration before the application is imported."""
    if os.name == "nt":
        raise ConfigurationError("a worker needs a POSIX system (Linux, macOS); on Windows only pushing is supported")
    config = options.load_config(beside=folder_beside(options.require))
    if not has_application(config):
        raise ConfigurationError("no application given: offsider worker -r MODULE (a module, a .py file or a folder)")
    if not config.worker.tag:
        config.worker.tag = Path.cwd().name.encode(errors="replace").decode()  # a file name may contain any bytes
    # Threads that a job starts must push to the same server as the worker.
    set_worker_config(config)
    return config


def worker_options(function: Function) -> Function:
    """Add the options of a worker to a click command."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


OPTIONS = (
    click.option(
        "-r", "--require", multiple=True, metavar="APP",
        help="Application to load: a module, a .py file or a folder. Repeatable.",
    ),
    click.option(
        "-q", "--queue", multiple=True, metavar="NAME[,WEIGHT]",
        help="Queue to serve; '*' means every queue. Repeatable. Without weights the order is strict. With weights, a "
        "queue is checked first in proportion to its weight. Default: `default` and the queues of the declared jobs.",
    ),
    click.option(
        "--shard", metavar="NAME",
        help="Serve this shard of the configuration: its queues, concurrency, processes, mode and server. Other "
        "options take precedence.",
    ),
    click.option(
        "--select", multiple=True, metavar="QUERY",
        help="Serve the queues of the jobs that match this query, for example 'urgency=high'. Repeatable: matches of "
        "any query.",
    ),
    click.option(
        "--negate", is_flag=True, help="With --select: serve all queues of declared jobs except the selected ones."
    ),
    click.option(
        "-c", "--concurrency", metavar="N",
        help="Number of jobs to run at the same time. Default: RAILS_MAX_THREADS or 5.",
    ),
    click.option(
        "-C", "--config", metavar="FILE",
        help="Configuration file. Default: offsider.toml, pyproject.toml or config/sidekiq.yml, in the current folder "
        "or next to the application.",
    ),
    click.option(
        "-e", "--environment", metavar="NAME",
        help="Environment. Default: OFFSIDER_ENV, APP_ENV, RAILS_ENV, RACK_ENV or development.",
    ),
    click.option("-g", "--tag", metavar="TAG", help="Label in the process title and the web UI."),
    click.option(
        "-t", "--timeout", metavar="SECONDS",
        help="Time for running jobs to finish when the worker stops. Default: 25.",
    ),
    click.option(
        "-p", "--processes", metavar="N",
        help="Run N worker processes, each with all threads, and restart those that exit; 'auto' is one per core. "
        "Default: one process; the command exits with it.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Set the log level to debug, and show whole tracebacks."),
    click.option(
        "--embedded", is_flag=True, help="Start a Valkey server for development, with data in .offsider."
    ),
    click.option("--reload", is_flag=True, help="Restart when source or configuration files change, for development."),
    click.option(
        "--health", metavar="HOST:PORT",
        help="Serve /live, /ready and /metrics over HTTP on this address. Default: off.",
    ),
    click.option(
        "--dry-run", is_flag=True,
        help="Show the processes, capsules, queues and server of this worker, then exit. Loads the application, does "
        "not connect to Redis.",
    ),
    click.option("--list-queues", is_flag=True, help="Show the queues of this worker, one per line, then exit."),
)  # fmt: skip
