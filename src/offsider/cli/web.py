"""``offsider web``: serve the web UI.

1. Read the configuration and import the application: its middleware runs when you retry jobs from a page, and its
   extensions add pages.
2. Configure authentication. It is mandatory except on loopback.
3. Serve until TERM or Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import click

from offsider.cli.application import folder_beside, load_application
from offsider.cli.command import CONNECTION, ConnectionOptions, command, require
from offsider.cli.failure import give_up
from offsider.cli.text import plain
from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.logs.output import Output
from offsider.logs.setup import setup_logging
from offsider.web.mounting import every_server
from offsider.web.page_request import WebOptions
from offsider.web.serving import Proxied, address, listening, secured, serve

PORT = 7433
FUNCTION = "MODULE:FUNCTION"


def _named_servers(texts: Sequence[str], load: Callable[[str], Config]) -> dict[str, Installation]:
    named: dict[str, Installation] = {}
    for text in texts:
        name, equals, url = text.partition("=")
        if not equals or not name or not url or name in named:
            raise ConfigurationError(f"--server expects NAME=URL, with unique names, got {name!r}")
        named[name] = Installation.of(load(url))
    return named


def _load(connection: ConnectionOptions, url: str, *, verbose: bool) -> Config:
    """Load the configuration and the application; ``url`` is the server, unless empty."""
    overrides = connection.overrides() | ({"level": "debug"} if verbose else {})
    config = Config.load(connection.config, beside=folder_beside(connection.require), overrides=overrides)
    setup_logging(config.log)
    load_application(connection.require, config)
    setup_logging(config.log)  # again, because the application may have configured logging
    if url:
        config.redis.url = url
    return config


def _named(text: str | None, option: str) -> Callable[..., Any] | None:
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


def _greet(options: WebOptions, url: str) -> None:
    lines = [f"offsider web: {url}", *(f"  {plain(line)}" for line in _about(options)), "  Press Ctrl-C to stop."]
    with suppress(OSError):  # the pages work without a reader of the output
        Output(sys.stdout).write_now("".join(f"{line}\n" for line in lines))


def _about(options: WebOptions) -> Sequence[str]:
    lines = [f"{name}: {server.settings.redacted_url}" for name, server in options.servers.items()]
    if options.authenticate is None:
        lines.append("No authentication: only this host can connect.")
    if options.read_only:
        lines.append("Read-only.")
    return lines


@command(
    click.option("--host", metavar="H", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option(
        "--port", metavar="N", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port to listen on."
    ),
    require("Application, as for `offsider worker`: its extensions and middleware are loaded."),
    click.option(
        "--server", "servers", multiple=True, metavar="NAME=URL",
        help="Server to show. Repeatable. Default: all servers of the configuration.",
    ),
    click.option(
        "--allowed-host", "allowed_hosts", multiple=True, metavar="NAME",
        help="Additional host name of the web UI, for example behind a proxy. Repeatable.",
    ),
    click.option("--read-only", is_flag=True, help="Disable all actions."),
    click.option("--auth", metavar=FUNCTION, help="Function that returns the user of a request, or None."),
    click.option("--authorize", metavar=FUNCTION, help="Function that decides whether a user may do an action."),
    click.option("--redact", metavar=FUNCTION, help="Redacts job arguments."),
    click.option("--app-url", metavar="URL", default="", help='Target of the link "Back to app".'),
    click.option("--root-path", metavar="PATH", default="", help="Path prefix that a proxy uses for the web UI."),
    click.option(
        "--trusted-proxy", multiple=True, metavar="ADDRESS",
        help="Address or network of a proxy. Only proxies can connect then, and their X-Forwarded-For is used. "
        "Repeatable.",
    ),
    *CONNECTION,
    click.option("-v", "--verbose", is_flag=True, help="Set the log level to debug."),
)  # fmt: skip
def web(
    connection: ConnectionOptions,
    /,
    *,
    host: str,
    port: int,
    servers: Sequence[str],
    auth: str | None,
    authorize: str | None,
    redact: str | None,
    root_path: str,
    trusted_proxy: Sequence[str],
    verbose: bool,
    **given: Any,
) -> int:
    """Serve the web UI.

    On loopback no password is needed. On other addresses set OFFSIDER_WEB_USER and OFFSIDER_WEB_PASSWORD, or use
    --auth.
    """
    load = partial(_load, connection, verbose=verbose)
    try:
        options = WebOptions(
            servers=_named_servers(servers, load) or {**every_server(Installation.of(load("")))},
            authenticate=_named(auth, "--auth"),
            authorize=_named(authorize, "--authorize"),
            redact=_named(redact, "--redact"),
            **given,
        )
        options, how = secured(options, host, os.environ), Proxied(root_path, tuple(trusted_proxy))
        set_default_config(options.servers[options.first].config)
        listener = listening(host, port)
        serve(options, listener, how=how, ready=partial(_greet, options, address(listener, host)))
    except OffsiderError as error:
        return give_up(str(error), error, verbose=verbose)
    return 0
