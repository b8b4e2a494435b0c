"""A request as pages see it: server, user, and validated parameters; and the options of all pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from typing import TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

from offsider.config.addresses import with_fields
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.core.segments import segment
from offsider.logs.setup import logger
from offsider.screens.errors import BadRequest
from offsider.screens.redaction import Redact
from offsider.screens.request import SELECTED, ScreenRequest
from offsider.screens.translation import Language
from offsider.web.origins import is_foreign
from offsider.web.request import Fields, Request

#: Field with the confirmation question of an extension's button.
QUESTION = "offsider_question"
_MAX_VALUES, _MAX_VALUE_LETTERS = 1000, 500
_OF_EVERY_CHANGE = ("confirmed", "format", QUESTION)
#: Returns the user's name for the audit log, or None (or ``""``) to refuse.
Authenticate: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
#: Returns whether the user may do an action: ``authorize(page_request, "job.delete")``.
Authorize: TypeAlias = "Callable[[PageRequest, str], bool]"


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


@dataclass(frozen=True)
class PageRequest(ScreenRequest):
    """A request to the pages of one server.

    Attributes:
        http: the HTTP request.
        options: the options of the pages.
        installation: the server.
        server: name of the server.
        location: path below the server's pages, quoted.
        parts: values of the placeholders in the route's path.
        query, form: query and form fields.
        who: the user's name; empty without authentication.
        actor: who does an action, for the event log: the user, or else the address of the client.
        locale: language of the response.
    """

    http: Request
    options: WebOptions
    server: str
    location: str
    query: Fields
    form: Fields
    locale: Language
    who: str = ""
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def installation(self) -> Installation:
        return self.options.servers[self.server]

    @property
    def redact(self) -> Redact | None:
        return self.options.redact

    @property
    def actor(self) -> str:
        return self.who or self.http.client or "unknown"

    @property
    def base(self) -> str:
        """The prefix of all paths of this server's pages: the mount path and the server."""
        return self.http.root + server_path(self.options, self.server)

    @property
    def came_from(self) -> str:
        """Path and query of the referring page of this server; empty if unknown."""
        try:
            page = urlsplit(self.http.header("referer"))
        except ValueError:
            return ""
        inside = page.path.startswith(f"{self.base}/") and not page.path.startswith("//")
        if not inside or page.netloc != self.http.header("host"):
            return ""
        return urlunsplit(("", "", page.path.removeprefix(self.base), page.query, ""))

    @property
    def read_only(self) -> bool:
        """Whether all actions are refused."""
        return self.options.read_only

    @property
    def is_confirmed(self) -> bool:
        """Whether the action is confirmed: by our script, by the confirmation page, or by a program."""
        return self.wants_json or self.form.get("confirmed") == "yes"

    def at(self, parts: Mapping[str, str]) -> PageRequest:
        """Return the request with the parts of its route."""
        return replace(self, parts=parts)

    def t(self, message: str, count: int | None = None, **values: object) -> str:
        """Translate a message into the user's language; see `Language.translate`."""
        return self.locale.translate(message, count, **values)

    def check_fields(self, known: Collection[str]) -> None:
        """Refuse a change with an unknown field, such as a misspelled filter, or a repeated one. Raises BadRequest."""
        names = [name for name, _ in (*self.form.pairs, *self.query.pairs)]
        for at, name in enumerate(names):
            if name not in known and name not in _OF_EVERY_CHANGE:
                raise BadRequest("error.unknown_field", name=name[:100], known=", ".join(known) or "-")
            if name != SELECTED and name in names[:at]:
                raise BadRequest("error.repeated_field", name=name)

    @property
    def is_foreign(self) -> bool:
        return is_foreign(self.http)

    def all(self, name: str) -> list[str]:
        values = self.form.all(name)
        if len(values) > _MAX_VALUES or any(len(value) > _MAX_VALUE_LETTERS for value in values):
            raise BadRequest("error.too_many_values", name=name, most=_MAX_VALUES, longest=_MAX_VALUE_LETTERS)
        return values

    def may(self, action: str) -> bool:
        """Whether the user may do an action, so that its button is shown."""
        return not self.read_only and self.is_authorized(action)

    def is_authorized(self, action: str) -> bool:
        """Whether the application's hook allows an action or page."""
        if self.options.authorize is None:
            return True
        answer = cast("object", self.options.authorize(self, action))
        if not isinstance(answer, bool):
            logger.warning("authorize(…, %r) returned a %s: only True grants access", action, type(answer).__name__)
        return answer is True

    @property
    def wants_json(self) -> bool:
        """Whether the client is a program."""
        return self.query.get("format") == "json" if self.query.get("format") else self.http.wants_json

    def url(self, path: str, **query: object) -> str:
        """Return the URL of a path below this server's pages."""
        return with_fields(self.base + path, **query)

    def this_page(self, **changes: object) -> str:
        """Return the URL of this page with changed query fields; None and "" remove a field."""
        merged: dict[str, object] = dict(self.query.pairs) | changes
        return with_fields(self.base + self.location, **merged)

    def sent(self, name: str) -> str:
        """Return a field of the form, or else of the query."""
        return self.form.get(name) if name in self.form else self.query.get(name)


def server_path(options: WebOptions, name: str) -> str:
    """Return the path of a server's pages, relative to the mount path."""
    return "" if name == options.first else f"/@{segment(name)}"
