"""``offsider web``: serve the web UI.

1. Read the configuration and import the application: its middleware runs when you retry jobs from a page, and its
   extensions add pages.
2. Configure authentication. It is mandatory except on loopback.
3. Serve until TERM or Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import click

from offsider.cli.application import folder_beside, load_application
from offsider.cli.command import SETTINGS
from offsider.cli.failure import give_up
from offsider.cli.text import plain
from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.logs.output import Output
from offsider.logs.setup import PATIENCE_SECONDS, setup_logging
from offsider.web.mounting import every_server
from offsider.web.options import WebOptions
from offsider.web.serving import Proxied, address, listening, secured, serve

PORT = 7433


@dataclass(frozen=True)
class WebCommand:
    """The options as typed; empty means not given."""

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
    trusted_proxy: tuple[str, ...] = ()
    config: str | None = None
    environment: str | None = None
    verbose: bool = False

    def options(self, environ: Mapping[str, str]) -> WebOptions:
        """Return the options of the web UI.

        Raises:
            ConfigurationError: the options are not safe, or a named function does not exist.
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

    def _servers(self) -> dict[str, Installation]:
        if not self.server:
            return {**every_server(Installation.of(self._loaded("")))}
        named: dict[str, Installation] = {}
        for text in self.server:
            name, equals, url = text.partition("=")
            if not equals or not name or not url or name in named:
                raise ConfigurationError(f"--server expects NAME=URL, with unique names, got {name!r}")
            named[name] = Installation.of(self._loaded(url))
        return named

    def _loaded(self, url: str) -> Config:
        overrides: dict[str, object] = {"environment": self.environment} if self.environment else {}
        overrides |= {"level": "debug"} if self.verbose else {}
        config = Config.load(self.config, beside=folder_beside(self.require), overrides=overrides)
        setup_logging(config.log)
        load_application(self.require, config)
        setup_logging(config.log)  # again, because the application may have configured logging
        if url:
            config.redis.url = url
        return config


def _named(text: str, option: str) -> Callable[..., Any] | None:
    """Import the function ``module:function``."""
    if not text:
        return None
    module, _, name = text.partition(":")
    try:
        found: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{option} {text}: {error}; expected MODULE:FUNCTION") from error
    if not callable(found):
        raise ConfigurationError(f"{option} {text} is not a function")
    return found


def run(given: WebCommand, environ: Mapping[str, str]) -> int:
    """Serve, and return the exit code."""
    try:
        options, how = given.options(environ), Proxied(given.root_path, given.trusted_proxy)
        set_default_config(options.servers[options.first].config)
        listener = listening(given.host, given.port)
        greet = partial(_greet, options, address(listener, given.host))
        serve(options, listener, how=how, ready=greet)
    except OffsiderError as error:
        return give_up(str(error), error, verbose=given.verbose)
    return 0


def _greet(options: WebOptions, url: str) -> None:
    lines = [f"offsider web: {url}", *(f"  {plain(line)}" for line in _about(options)), "  Press Ctrl-C to stop."]
    with suppress(OSError):  # the pages work without a reader of the output
        Output(sys.stdout).write("".join(f"{line}\n" for line in lines), PATIENCE_SECONDS)


def _about(options: WebOptions) -> Sequence[str]:
    lines = [f"{name}: {here.settings.redacted_url}" for name, here in options.servers.items()]
    if options.authenticate is None:
        lines.append("No authentication: only this host can connect.")
    if options.read_only:
        lines.append("Read-only.")
    return lines


@click.command(context_settings={**SETTINGS, "max_content_width": 100})
@click.option("--host", metavar="H", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port to listen on."
)
@click.option(
    "-r",
    "--require",
    multiple=True,
    metavar="APP",
    help="Application, as for `offsider worker`: its extensions and middleware are loaded.",
)
@click.option(
    "--server",
    multiple=True,
    metavar="NAME=URL",
    help="Server to show. Repeatable. Default: all servers of the configuration.",
)
@click.option(
    "--allowed-host",
    multiple=True,
    metavar="NAME",
    help="Additional host name of the web UI, for example behind a proxy. Repeatable.",
)
@click.option("--read-only", is_flag=True, help="Disable all actions.")
@click.option(
    "--auth", metavar="MODULE:FUNCTION", default="", help="Function that returns the user of a request, or None."
)
@click.option(
    "--authorize", metavar="MODULE:FUNCTION", default="", help="Function that decides whether a user may do an action."
)
@click.option("--redact", metavar="MODULE:FUNCTION", default="", help="Redacts job arguments.")
@click.option("--app-url", metavar="URL", default="", help='Target of the link "Back to app".')
@click.option("--root-path", metavar="PATH", default="", help="Path prefix that a proxy uses for the web UI.")
@click.option(
    "--trusted-proxy",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy. Only proxies can connect then, and their X-Forwarded-For is used. Repeatable.",
)
@click.option("-C", "--config", metavar="FILE", help="Configuration file, which contains the Redis URL.")
@click.option("-e", "--environment", metavar="NAME", help="Environment in the configuration file to apply.")
@click.option("-v", "--verbose", is_flag=True, help="Set the log level to debug.")
def web(**given: Any) -> int:
    """Serve the web UI: dashboard, queues, retries, dead jobs, metrics, errors.

    On loopback no password is needed. On other addresses set OFFSIDER_WEB_USER and OFFSIDER_WEB_PASSWORD, or use
    --auth.
    """
    return run(WebCommand(**given), os.environ)
