"""Mount the web UI in a web framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.screens.redaction import Redact
from offsider.web.asgi_adapter import AsgiApp
from offsider.web.page_request import Authenticate, Authorize, WebOptions
from offsider.web.wsgi_adapter import WsgiApp

if TYPE_CHECKING:
    from offsider.web.app import WebApp

#: Key of the user's name in the context of requests, for `behind`.
WHO = "offsider-user"
Servers: TypeAlias = Config | Mapping[str, Config | Installation] | None
#: Name of a single server without a name.
ONLY = "redis"


class PageOptions(TypedDict, total=False):
    """Options of the web UI in a framework that checks the users itself.

    Attributes:
        authorize: returns whether a user may do an action.
        redact: returns the arguments to show.
        read_only: disables all actions.
        app_url: target of the link "Back to app".
    """

    authorize: Authorize | None
    redact: Redact | None
    read_only: bool
    app_url: str


class MountOptions(PageOptions, total=False):
    """Options of the web UI in an application.

    Attributes:
        authenticate: returns the user's name, or None. It may be async.
        authorize: returns whether a user may do an action.
        redact: returns the arguments to show.
        read_only: disables all actions.
        allowed_hosts: accept only these host names; default: any, or, with ``insecure``, loopback.
        app_url: target of the link "Back to app".
        insecure: disable authentication. Then only programs on the same machine are accepted, unless
            ``allowed_hosts`` is set.
    """

    authenticate: Authenticate | None
    allowed_hosts: Sequence[str]
    insecure: bool


def asgi(config: Servers = None, **options: Unpack[MountOptions]) -> AsgiApp:
    """Return the web UI as an ASGI application, for Starlette, FastAPI and others.

    Args:
        config: the configuration with all of its servers (default: the process-wide one), or configurations by name.
        options: those of `MountOptions`.

    Raises:
        ConfigurationError: neither ``authenticate`` nor ``insecure`` is set.
    """
    return AsgiApp(_mounted(config, **options))


def wsgi(config: Servers = None, **options: Unpack[MountOptions]) -> WsgiApp:
    """Return the web UI as a WSGI application, for Flask, Django and others. Arguments as in `asgi`."""
    return WsgiApp(_mounted(config, **options))


def _mounted(config: Servers, *, insecure: bool = False, **options: Any) -> WebApp:
    return web_app(guarded(WebOptions(servers=named(config), **options), insecure=insecure))


def behind(config: Servers, **options: Unpack[PageOptions]) -> WebApp:
    """Make the web UI for a framework that checks users and hosts itself, and passes the user's name as `WHO`."""
    servers = named(config)
    return web_app(
        WebOptions(servers, authenticate=lambda http: http.context[WHO] or None, check_host=False, **options)
    )


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


def every_server(installation: Installation) -> Mapping[str, Installation]:
    """Return the servers of a configuration by name, ``main`` first."""
    if len(installation.config.servers) == 1:
        return {ONLY: installation}
    return {name: installation.for_server(name) for name in installation.config.servers}


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
