"""Mount the web UI in a web framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.web.asgi_adapter import AsgiApp
from offsider.web.options import Authenticate, Authorize, WebOptions
from offsider.web.redaction import Redact
from offsider.web.wsgi_adapter import WsgiApp

if TYPE_CHECKING:
    from offsider.web.app import WebApp

#: Key of the user's name in the context of requests, for `behind`.
WHO = "offsider-user"
Servers: TypeAlias = Config | Mapping[str, Config | Installation] | None
#: Name of a single server without a name.
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
    """Return the web UI as an ASGI application, for Starlette, FastAPI and others.

    Args:
        config: the configuration with all of its servers (default: the process-wide one), or configurations by name.
        authenticate: returns the user's name, or None. It may be async.
        authorize: returns whether a user may do an action.
        redact: returns the arguments to show.
        read_only: disables all actions.
        allowed_hosts: accept only these host names; default: any, or, with ``insecure``, loopback.
        app_url: target of the link "Back to app".
        insecure: disable authentication. Then only programs on the same machine are accepted, unless
            ``allowed_hosts`` is set.

    Raises:
        ConfigurationError: neither ``authenticate`` nor ``insecure`` is set.
    """
    options = WebOptions(
        servers=named(config),
        authenticate=authenticate,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        allowed_hosts=tuple(allowed_hosts),
        app_url=app_url,
    )
    return AsgiApp(web_app(guarded(options, insecure=insecure)))


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
    """Return the web UI as a WSGI application, for Flask, Django and others. Arguments as in `asgi`."""
    options = WebOptions(
        servers=named(config),
        authenticate=authenticate,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        allowed_hosts=tuple(allowed_hosts),
        app_url=app_url,
    )
    return WsgiApp(web_app(guarded(options, insecure=insecure)))


def behind(
    config: Servers, *, authorize: Authorize | None, redact: Redact | None, read_only: bool, app_url: str
) -> WebApp:
    """Make the web UI for a framework that checks users and hosts itself, and passes the user's name as `WHO`."""
    options = WebOptions(
        servers=named(config),
        authenticate=lambda request: request.context[WHO] or None,
        authorize=authorize,
        redact=redact,
        read_only=read_only,
        check_host=False,
        app_url=app_url,
    )
    return web_app(options)


def checked_name(who: object, source: object) -> str | None:
    """Return the name that the function ``source`` of the application returned. ConfigurationError if it is no name."""
    if who is None or isinstance(who, str):
        return who
    name = getattr(source, "__qualname__", repr(source))
    raise ConfigurationError(f"{name} must return the user's name or None, got {type(who).__name__}")


def web_app(options: WebOptions) -> WebApp:
    """Make the web UI. Raises ConfigurationError if its dependencies are not installed."""
    if find_spec("jinja2") is None:
        raise ConfigurationError('the web UI needs jinja2: pip install "offsider[web]"')
    from offsider.web.app import WebApp  # imports jinja2

    return WebApp(options)


def named(config: Servers) -> Mapping[str, Installation]:
    """Return the servers by name. Raises ConfigurationError if there is none."""
    if config is None or isinstance(config, Config):
        return every_server(Installation.of(config))
    if not config:
        raise ConfigurationError("the web UI needs at least one server: asgi({'main': config})")
    return {name: Installation.of(each) for name, each in config.items()}


def every_server(here: Installation) -> Mapping[str, Installation]:
    """Return the servers of a configuration by name, ``main`` first."""
    if len(here.config.servers) == 1:
        return {ONLY: here}
    return {name: here.for_server(name) for name in here.config.servers}


def guarded(options: WebOptions, *, insecure: bool) -> WebOptions:
    """Check that the options of a mounted web UI define who has access."""
    if options.authenticate is not None and insecure:
        raise ConfigurationError("authenticate= and insecure=True contradict each other: pass one of them")
    if options.authenticate is None and not insecure:
        raise ConfigurationError(
            "the web UI needs authentication: pass authenticate=, a function that returns the user's name or None; "
            "or insecure=True, which allows every program on the same machine"
        )
    named_hosts = bool(options.allowed_hosts)
    return replace(options, check_host=insecure or named_hosts, only_local=insecure and not named_hosts)
