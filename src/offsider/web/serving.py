"""The pages as a process of their own.

1. Who may come is settled first: on loopback anybody, under a known host name; elsewhere only with authentication.
2. The address is bound, so that a port that is taken ends the start.
3. uvicorn serves until TERM or INT; requests under way have five seconds.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType

from offsider.core.errors import ConfigurationError
from offsider.web.authentication import CHALLENGE, basic
from offsider.web.hosts import is_loopback
from offsider.web.mounting import check_extra
from offsider.web.options import WebOptions

USER = "OFFSIDER_WEB_USER"
PASSWORD = "OFFSIDER_WEB_PASSWORD"  # noqa: S105  # the name of the variable
STOP_SECONDS = 5
#: More connections than that are refused, so that visitors cannot use up what the process may open.
MOST_CONNECTIONS = 500


def secured(options: WebOptions, host: str, environ: Mapping[str, str]) -> WebOptions:
    """The options with the authentication that the environment tells, if they have none yet.

    Raises:
        ConfigurationError: the pages could be reached from elsewhere, and nobody would be asked who they are.
    """
    user, password = environ.get(USER, ""), environ.get(PASSWORD, "")
    if bool(user) != bool(password):
        raise ConfigurationError(f"{USER} and {PASSWORD} belong together: set both, or none")
    if user and options.authenticate is None:
        options = replace(options, authenticate=basic(user, password), challenge=CHALLENGE)
    if options.authenticate is None and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host} can be reached from other machines, and nobody would be asked for a password: set {USER} "
            f"and {PASSWORD}, or name a function with --auth MODULE:FUNCTION; or serve on --host 127.0.0.1"
        )
    return replace(options, check_host=options.authenticate is None or bool(options.allowed_hosts))


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises ConfigurationError when it cannot."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        listener = socket.create_server((str(where[0]), int(where[1])), family=family, backlog=256)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    # Connections inherit it. asyncio sets it for sockets of its own making only, and without it an answer waits 40 ms
    # for the acknowledgement of its headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address(listener: socket.socket, host: str) -> str:
    """The URL that a browser on this machine opens."""
    name = "localhost" if host in {"", "0.0.0.0", "::", "[::]"} else host  # noqa: S104  # it is compared, not bound
    shown = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{shown}:{listener.getsockname()[1]}/"


def serve(options: WebOptions, listener: socket.socket, *, root_path: str = "", ready: Callable[[], None]) -> None:
    """Serve until a signal ends it.

    Args:
        options: who may see and do what.
        listener: listens already.
        root_path: the path under which a proxy hands these pages on.
        ready: called once it listens to signals too.

    Raises:
        ConfigurationError: uvicorn or jinja2 is not installed.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise ConfigurationError('offsider web needs uvicorn: pip install "offsider[web]"') from error
    check_extra()
    from offsider.web.app import WebApp
    from offsider.web.asgi_adapter import AsgiApp
    from offsider.web.patience import ImpatientProtocol
    from offsider.web.templates import warm

    app = AsgiApp(WebApp(options))
    warm()  # so that the first visitor does not wait for it
    config = uvicorn.Config(
        app,
        http=ImpatientProtocol,
        root_path=root_path.rstrip("/"),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    # uvicorn raises the signal that ended it once more, and the process shall end well.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _do_nothing)
    ready()
    uvicorn.Server(config).run(sockets=[listener])


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The server has ended already."""
