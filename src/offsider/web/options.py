"""Options of the web UI: access, redaction and host names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Protocol, TypeAlias

from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.web.redaction import Redact
from offsider.web.request import Request


class Visitor(Protocol):
    """The argument of an authorization hook: the `offsider.web.PageRequest` with the user and the server."""

    @property
    def who(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def http(self) -> Request: ...


#: Returns the user's name for the audit log, or None (or ``""``) to refuse.
Authenticate: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
#: Returns whether the user may do an action: ``authorize(visitor, "queue.clear")``.
Authorize: TypeAlias = Callable[[Visitor, str], bool]


@dataclass(frozen=True)
class WebOptions:
    """Options of the web UI.

    Attributes:
        servers: configurations by name; the first is served at the root, the others below ``/@name``.
        authenticate: called for each request; None: no authentication.
        challenge: ``WWW-Authenticate`` header of a refusal; empty: a refusal is a plain 403.
        authorize: called before each page and action; None: everything is allowed.
        redact: returns the arguments to show; None: all.
        read_only: disables all actions.
        allowed_hosts: accepted names in the ``Host`` header, besides loopback; ``*`` accepts any.
        check_host: whether other host names are refused.
        only_local: whether only clients on this machine are accepted.
        app_url: target of the link "Back to app"; empty: no link.

    Raises:
        ConfigurationError: ``authorize`` or ``redact`` is async. They are called for every button and every job.
    """

    servers: Mapping[str, Installation]
    authenticate: Authenticate | None = None
    challenge: str = ""
    authorize: Authorize | None = None
    redact: Redact | None = None
    read_only: bool = False
    allowed_hosts: Sequence[str] = field(default_factory=tuple)
    check_host: bool = True
    only_local: bool = False
    app_url: str = ""

    def __post_init__(self) -> None:
        for name, hook in (("authorize", self.authorize), ("redact", self.redact)):
            if iscoroutinefunction(hook) or iscoroutinefunction(getattr(hook, "__call__", None)):  # noqa: B004
                raise ConfigurationError(f"{name} must be a plain function, not async; only authenticate may be async")

    @property
    def first(self) -> str:
        """The name of the server at the root."""
        return next(iter(self.servers))
