"""``offsider web``: the pages on which everything that is stored can be seen and acted on.

1. Read the configuration, and let the application have its say: its middleware runs when jobs are retried from a page,
   and its extensions bring pages of their own.
2. Settle who may come. Beyond this machine nobody comes in without a name.
3. Serve until TERM or Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import click

from offsider.cli.application import folder_beside, load_application
from offsider.cli.failure import give_up
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.web.mounting import every_server
from offsider.web.options import WebOptions
from offsider.web.serving import address, listening, secured, serve
from offsider.wiring.config import Config
from offsider.wiring.default import set_default_config
from offsider.wiring.logs import setup_logging

PORT = 7433
SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True)
class WebCommand:
    """The command line as it was typed; empty means not given."""

    host: str
    port: int
    require: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    allowed_host: tuple[str, ...] = ()
    read_only: bool = False
    auth: str = ""
    authorize: str = ""
    redact: str = ""
    app_url: str = ""
    root_path: str = ""
    config: str | None = None
    environment: str | None = None
    verbose: bool = False

    def options(self, environ: Mapping[str, str]) -> WebOptions:
        """What the command line says about who may see and do what.

        Raises:
            ConfigurationError: it is not safe, or something that it names is not there.
        """
        servers = self._servers()
        options = WebOptions(
            servers=servers,
            authenticate=_named(self.auth, "--auth"),
            authorize=_named(self.authorize, "--authorize"),
            redact=_named(self.redact, "--redact"),
            read_only=self.read_only,
            allowed_hosts=self.allowed_host,
            app_url=self.app_url,
        )
        return secured(options, self.host, environ)

    def _servers(self) -> dict[str, Config]:
        if not self.server:
            return {**every_server(self._loaded(""))}
        named: dict[str, Config] = {}
        for text in self.server:
            name, equals, url = text.partition("=")
            if not equals or not name or not url or name in named:
                raise ConfigurationError(f"--server expects NAME=URL, each name once, got {name!r}")
            named[name] = self._loaded(url)
        return named

    def _loaded(self, url: str) -> Config:
        overrides: dict[str, object] = {"environment": self.environment} if self.environment else {}
        overrides |= {"level": "debug"} if self.verbose else {}
        config = Config.load(self.config, beside=folder_beside(self.require), overrides=overrides)
        setup_logging(config.log)
        load_application(self.require, config)
        if url:
            config.redis.url = url
        return config


def _named(text: str, option: str) -> Callable[..., Any] | None:
    """The function ``module:function``."""
    if not text:
        return None
    module, _, name = text.partition(":")
    try:
        found: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{option} {text}: {error}; it expects MODULE:FUNCTION") from error
    if not callable(found):
        raise ConfigurationError(f"{option} {text} is no function")
    return found


def run(given: WebCommand, environ: Mapping[str, str]) -> int:
    """Serve; answers the exit code."""
    try:
        options = given.options(environ)
        set_default_config(options.servers[options.first])
        listener = listening(given.host, given.port)
        greet = partial(_greet, options, address(listener, given.host))
        serve(options, listener, root_path=given.root_path, ready=greet)
    except OffsiderError as error:
        return give_up(str(error), error, verbose=given.verbose)
    return 0


def _greet(options: WebOptions, url: str) -> None:
    click.echo(f"offsider web: {url}")
    for line in (*_about(options), "Ctrl-C ends it."):
        click.echo(f"  {line}")


def _about(options: WebOptions) -> Sequence[str]:
    lines = [f"{name}: {config.redis.redacted_url}" for name, config in options.servers.items()]
    if options.authenticate is None:
        lines.append("Nobody is asked for a password: only this machine can reach it.")
    if options.read_only:
        lines.append("Read-only.")
    return lines


@click.command(context_settings={**SETTINGS, "max_content_width": 100})
@click.option("--host", metavar="H", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="The port.")
@click.option(
    "-r",
    "--require",
    multiple=True,
    metavar="APP",
    help="The application, as of the worker: for its extensions and middleware.",
)
@click.option(
    "--server",
    multiple=True,
    metavar="NAME=URL",
    help="A server to show; several are shown side by side. Default: all of the configuration's.",
)
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="A further host name that these pages are reached under, through a proxy for example.",
)
@click.option("--read-only", is_flag=True, help="Only looking is possible.")
@click.option("--auth", metavar="MODULE:FUNCTION", default="", help="Answers the name of who asks, or None.")
@click.option("--authorize", metavar="MODULE:FUNCTION", default="", help="Whether a visitor may do an action.")
@click.option("--redact", metavar="MODULE:FUNCTION", default="", help="What is shown of arguments.")
@click.option("--app-url", metavar="URL", default="", help='Where "Back to the application" leads.')
@click.option("--root-path", metavar="PATH", default="", help="The path under which a proxy hands these pages on.")
@click.option("-C", "--config", metavar="FILE", help="The configuration file, which says where Redis is.")
@click.option("-e", "--environment", metavar="NAME", help="Which of the file's environments applies.")
@click.option("-v", "--verbose", is_flag=True, help="Log at the level debug.")
def web(**given: Any) -> None:
    """Serve the web pages: dashboard, queues, retries, dead jobs, metrics, errors.

    On this machine no password is needed. Elsewhere OFFSIDER_WEB_USER and OFFSIDER_WEB_PASSWORD have to be set, or
    --auth given.
    """
    sys.exit(run(WebCommand(**given), os.environ))
