"""The options of ``offsider worker``, and what they become: settings that override files and the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from offsider import __version__
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

    def overrides(self) -> dict[str, object]:
        """Settings by name. Their values are checked where all others are."""
        texts = {
            "concurrency": self.concurrency,
            "environment": self.environment,
            "tag": self.tag,
            "timeout_seconds": self.timeout,
            "health": self.health,
            "processes": self.processes,
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
        settings |= {"keeper": False} if self.no_keeper else {}
        return settings | ({"level": "debug"} if self.verbose else {})

    def load_config(self, *, beside: Path | None = None) -> Config:
        """The configuration by command line, environment, file and defaults; ConfigurationError as in `Config.load`."""
        return Config.load(self.config, beside=beside, overrides=self.overrides())


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
    click.version_option(__version__, "-V", "--version", message="offsider %(version)s"),
)  # fmt: skip
