"""What whoever serves the pages decides: who may see and do what, and under which names they are reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Protocol, TypeAlias

from offsider.core.errors import ConfigurationError
from offsider.web.redaction import Redact
from offsider.web.request import Request
from offsider.wiring.config import Config


class Visitor(Protocol):
    """What an authorisation hook gets, the `offsider.web.Visit` itself: who asks, for which server's pages."""

    @property
    def who(self) -> str: ...
    @property
    def server(self) -> str: ...
    @property
    def request(self) -> Request: ...


#: Answers who it is, a name for the audit log, or None (or ``""``) when nobody it knows.
Authenticate: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
#: Whether the visitor may do an action: ``authorize(visitor, "queue.clear")``.
Authorize: TypeAlias = Callable[[Visitor, str], bool]


@dataclass(frozen=True)
class WebOptions:
    """How the pages are served.

    Attributes:
        servers: by name; the first one is shown at the root, the others below ``/@name``.
        authenticate: asked at each request; None: nobody is asked for a name.
        challenge: the ``WWW-Authenticate`` of those who are not let in; empty: they get a plain 403.
        authorize: asked before each page and action; None: all may do all.
        redact: what is shown of arguments; None: all.
        read_only: only looking is possible.
        allowed_hosts: names of the ``Host`` header that are answered, besides loopback's; ``*`` is any.
        check_host: whether others are refused.
        only_local: whether only clients on this machine are answered.
        app_url: where "Back to the application" leads; empty: there is no such link.

    Raises:
        ConfigurationError: ``authorize`` or ``redact`` is async. They are asked for every button and every job.
    """

    servers: Mapping[str, Config]
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
                raise ConfigurationError(
                    f"{name} has to be a plain function and is an async one, whose answer nobody would wait for; "
                    "only authenticate may be async"
                )

    @property
    def first(self) -> str:
        """The name of the server at the root."""
        return next(iter(self.servers))
