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
import re
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from types import FrameType
from typing import Any, cast

from offsider.core.errors import ConfigurationError
from offsider.web.asgi_adapter import AsgiApp, Receive, Scope, Send, request_of
from offsider.web.mounting import web_app
from offsider.web.origins import is_loopback
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from offsider.web.results import Forbidden

USER = "OFFSIDER_WEB_USER"
PASSWORD = "OFFSIDER_WEB_PASSWORD"  # noqa: S105  # the name of the variable
STOP_SECONDS = 5
#: Connections above this limit are refused, so that clients cannot exhaust the process's file descriptors.
MAX_CONNECTIONS = 500
CHALLENGE = 'Basic realm="offsider", charset="UTF-8"'
_NO_PROXY = "{client} is not a trusted proxy: connect through the proxy, or add the address with --trusted-proxy"
_ROOT_PATH = re.compile(r"(/[^/?#%\s]+)*/?")


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


@dataclass(frozen=True)
class Proxied:
    """How proxies publish the web UI.

    Attributes:
        root_path: the path at which they publish it. They may remove it from the paths of requests.
        proxies: their addresses or networks. Others are refused, so that all headers are those of a proxy. Empty: no
            forwarded address is trusted.

    Raises:
        ConfigurationError: a value is no path or no address.
    """

    root_path: str = ""
    proxies: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not _ROOT_PATH.fullmatch(self.root_path):
            raise ConfigurationError(f"--root-path expects a path such as /jobs, got {self.root_path!r}")
        _ = self.networks

    @property
    def networks(self) -> list[IPv4Network | IPv6Network]:
        try:
            return [ip_network(each) for each in self.proxies]
        except ValueError as error:
            raise ConfigurationError(
                f"--trusted-proxy expects an IP address or a network such as 10.0.0.0/8: {error}"
            ) from error


def proxied(app: AsgiApp, how: Proxied) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Return the web UI as an application for uvicorn."""
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    networks, root = how.networks, how.root_path.rstrip("/")
    forwarded = cast("Any", ProxyHeadersMiddleware)(app, [str(network) for network in networks])

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        scope["root_path"] = root
        client = scope["client"][0]
        if not networks:
            await app(scope, receive, send)
        elif any(ip_address(client) in network for network in networks):
            await forwarded(scope, receive, send)
        else:
            await app.answer(request_of(scope, Forbidden(_NO_PROXY.format(client=client))), send)

    return respond


def serve(options: WebOptions, listener: socket.socket, *, how: Proxied, ready: Callable[[], None]) -> None:
    """Serve until INT or TERM.

    Args:
        options: access and display options.
        listener: a listening socket.
        how: how proxies publish it.
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
    config = uvicorn.Config(
        proxied(AsgiApp(pages), how),
        http=TimeoutProtocol,
        proxy_headers=False,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
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
