"""Run the web UI as its own process.

1. Check access first: on loopback anyone, under a known host name; elsewhere only with authentication.
2. Bind the address, so that a port in use fails at startup.
3. Run uvicorn until TERM or INT; requests under way have five seconds to complete.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType

from offsider.core.errors import ConfigurationError
from offsider.web.allowed_hosts import is_loopback
from offsider.web.asgi_adapter import AsgiApp
from offsider.web.mounting import web_app
from offsider.web.options import WebOptions
from offsider.web.request import Request

USER = "OFFSIDER_WEB_USER"
PASSWORD = "OFFSIDER_WEB_PASSWORD"  # noqa: S105  # the name of the variable
STOP_SECONDS = 5
#: Connections above this limit are refused, so that clients cannot exhaust the process's file descriptors.
MOST_CONNECTIONS = 500
CHALLENGE = 'Basic realm="offsider", charset="UTF-8"'


def secured(options: WebOptions, host: str, environ: Mapping[str, str]) -> WebOptions:
    """Add the authentication from the environment, if the options have none.

    Raises:
        ConfigurationError: other machines can reach the web UI, and no authentication is configured.
    """
    user, password = environ.get(USER, ""), environ.get(PASSWORD, "")
    if bool(user) != bool(password):
        raise ConfigurationError(f"{USER} and {PASSWORD} belong together: set both or neither")
    if user and options.authenticate is None:
        options = replace(options, authenticate=basic(user, password), challenge=CHALLENGE)
    if options.authenticate is None and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host} is reachable from other machines, and no authentication is configured: set {USER} "
            f"and {PASSWORD}, or pass --auth MODULE:FUNCTION, or use --host 127.0.0.1"
        )
    return replace(options, check_host=options.authenticate is None or bool(options.allowed_hosts))


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 picks a free port. Raises ConfigurationError on failure."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        listener = socket.create_server((str(where[0]), int(where[1])), family=family, backlog=256)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address with --host and --port"
        ) from error
    # Connections inherit the option. asyncio sets it only for sockets that it creates; without it a response waits
    # 40 ms for the acknowledgement of its headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address(listener: socket.socket, host: str) -> str:
    """Return the URL for a browser on this machine."""
    name = "localhost" if host in {"", "0.0.0.0", "::", "[::]"} else host  # noqa: S104  # it is compared, not bound
    shown = f"[{name}]" if ":" in name and not name.startswith("[") else name
    return f"http://{shown}:{listener.getsockname()[1]}/"


def serve(options: WebOptions, listener: socket.socket, *, root_path: str = "", ready: Callable[[], None]) -> None:
    """Serve until INT or TERM.

    Args:
        options: access and display options.
        listener: a listening socket.
        root_path: the path at which a proxy publishes the web UI.
        ready: called after the signal handlers are installed.

    Raises:
        ConfigurationError: uvicorn or jinja2 is not installed.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise ConfigurationError('offsider web needs uvicorn: pip install "offsider[web]"') from error
    from offsider.web.request_timeout import TimeoutProtocol  # imports uvicorn

    pages = web_app(options)
    pages.warm()  # the first user does not wait for it
    app = AsgiApp(pages)
    config = uvicorn.Config(
        app,
        http=TimeoutProtocol,
        root_path=root_path.rstrip("/"),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    # uvicorn raises the signal again after its shutdown, and the process must exit with code 0.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _do_nothing)
    ready()
    uvicorn.Server(config).run(sockets=[listener])


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Ignore the signal: the server has already stopped."""


def basic(user: str, password: str) -> Callable[[Request], str | None]:
    """Return a hook for one user and password. Its duration does not depend on the credentials."""
    known = _digest(user), _digest(password)

    def authenticate(request: Request) -> str | None:
        given = _credentials(request.header("authorization"))
        fits = hmac.compare_digest(_digest(given[0]), known[0])
        # Always compare both.
        fits &= hmac.compare_digest(_digest(given[1]), known[1])
        return user if fits else None

    return authenticate


def _credentials(header: str) -> tuple[str, str]:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    user, _, password = text.partition(":")
    return user, password


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()
