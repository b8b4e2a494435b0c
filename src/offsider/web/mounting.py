"""The pages for a web framework to mount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.errors import ConfigurationError
from offsider.web.options import Authenticate, Authorize, WebOptions
from offsider.web.redaction import Redact
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

if TYPE_CHECKING:
    from offsider.web.asgi_adapter import AsgiApp
    from offsider.web.wsgi_adapter import WsgiApp

Servers: TypeAlias = Config | Mapping[str, Config] | None
#: The name of a server that was given none.
ONLY = "redis"


def asgi(
    config: Servers = None,
    *,
    authenticate: Authenticate | None = None,
    authorize: Authorize | None = None,
    redact: Redact | None = None,
    read_only: bool = False,
    allowed_hosts: Sequence[str] = (),
    app_url: str = "",
    insecure: bool = False,
) -> AsgiApp:
    """The pages as an ASGI application, for Starlette, FastAPI and others to mount.

    Args:
        config: which configuration, by default this process's, with all of its servers; or servers by name.
        authenticate: answers who it is that asks, or None. It may be async.
        authorize: whether a visitor may do an action.
        redact: what is shown of arguments.
        read_only: only looking is possible.
        allowed_hosts: answer under these names only; by default under any, or, when ``insecure``, under loopback's.
        app_url: where "Back to the application" leads.
        insecure: ask nobody who they are. Then only programs on the same machine are answered, unless hosts are
            allowed by name.

    Raises:
        ConfigurationError: nothing says who may see the pages.
    """
    check_extra()
    from offsider.web.app import WebApp
    from offsider.web.asgi_adapter import AsgiApp

    options = WebOptions(
        servers=named(config),
        authenticate=authenticate,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        allowed_hosts=tuple(allowed_hosts),
        app_url=app_url,
    )
    return AsgiApp(WebApp(guarded(options, insecure=insecure)))


def wsgi(
    config: Servers = None,
    *,
    authenticate: Authenticate | None = None,
    authorize: Authorize | None = None,
    redact: Redact | None = None,
    read_only: bool = False,
    allowed_hosts: Sequence[str] = (),
    app_url: str = "",
    insecure: bool = False,
) -> WsgiApp:
    """The pages as a WSGI application, for Flask, Django and others; all as of `asgi`."""
    check_extra()
    from offsider.web.app import WebApp
    from offsider.web.wsgi_adapter import WsgiApp

    options = WebOptions(
        servers=named(config),
        authenticate=authenticate,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        allowed_hosts=tuple(allowed_hosts),
        app_url=app_url,
    )
    return WsgiApp(WebApp(guarded(options, insecure=insecure)))


def check_extra() -> None:
    """Raise ConfigurationError when what the pages stand on is not installed."""
    if find_spec("jinja2") is None:
        raise ConfigurationError('the web pages need jinja2: pip install "offsider[web]"')


def named(config: Servers) -> Mapping[str, Config]:
    """Servers by name; ConfigurationError when there is none."""
    if config is None:
        config = default_config()
    if isinstance(config, Config):
        return every_server(config)
    if not config:
        raise ConfigurationError("the web pages need at least one server: asgi({'main': config})")
    return dict(config)


def every_server(config: Config) -> Mapping[str, Config]:
    """The servers of a configuration by name, ``main`` first."""
    if len(config.servers) == 1:
        return {ONLY: config}
    return {name: config.for_server(name) for name in config.servers}


def guarded(options: WebOptions, *, insecure: bool) -> WebOptions:
    """The options of pages inside another application, which have to say who may see them."""
    if options.authenticate is not None and insecure:
        raise ConfigurationError("authenticate= and insecure=True say opposite things: give one of them")
    if options.authenticate is None and not insecure:
        raise ConfigurationError(
            "who may see the pages? Give authenticate=, a function that answers the name of who asks or None; "
            "or insecure=True, which lets in every program on the same machine"
        )
    named_hosts = bool(options.allowed_hosts)
    return replace(options, check_host=insecure or named_hosts, only_local=insecure and not named_hosts)
