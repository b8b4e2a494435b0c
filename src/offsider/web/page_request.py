"""A request as pages see it: server, user, and validated parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast
from urllib.parse import urlencode, urlsplit, urlunsplit

from offsider.config.installation import Installation
from offsider.logs.setup import logger
from offsider.web.options import WebOptions
from offsider.web.redaction import HIDDEN
from offsider.web.request import Fields, Request
from offsider.web.results import BadRequest
from offsider.web.segments import segment
from offsider.web.translation import Language

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
#: Field that must be ``yes`` in a change of everything.
EVERY = "every"
#: Field for each selected job.
SELECTED = "key"
#: Field with the confirmation question of an extension's button.
QUESTION = "offsider_question"
_OF_EVERY_CHANGE = ("confirmed", "format", QUESTION)
AUTO = "auto"
THEMES = (AUTO, "light", "dark")
#: Rows on a page of a list.
PAGE = 25
MAX_PAGES = 1_000_000
THEME_COOKIE = "offsider_theme"


@dataclass(frozen=True)
class PageRequest:
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
        locale: language of the response.
        theme: ``light``, ``dark``, or ``auto`` for the browser's preference.
    """

    http: Request
    options: WebOptions
    server: str
    location: str
    query: Fields
    form: Fields
    locale: Language
    who: str = ""
    theme: str = AUTO
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def installation(self) -> Installation:
        return self.options.servers[self.server]

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

    def path(self, name: str) -> str:
        """Return the value of ``{name}`` in the route's path."""
        return self.parts[name]

    def check_fields(self, known: Collection[str]) -> None:
        """Refuse a change with an unknown field, such as a misspelled filter, or a repeated one. Raises BadRequest."""
        names = [name for name, _ in (*self.form.pairs, *self.query.pairs)]
        for at, name in enumerate(names):
            if name not in known and name not in _OF_EVERY_CHANGE:
                raise BadRequest("error.unknown_field", name=name[:100], known=", ".join(known) or "-")
            if name != SELECTED and name in names[:at]:
                raise BadRequest("error.repeated_field", name=name)

    def check_every(self) -> None:
        """Refuse a change of everything that does not say so: it may have lost its filter. Raises BadRequest."""
        if self.text(EVERY) != "yes":
            raise BadRequest("error.every", name=EVERY)

    def number(self, name: str, default: int | None = 1, lowest: int = 1, highest: int = 1_000_000) -> int:
        """Return an integer field; None as default: it is required. Raises BadRequest if it is not valid."""
        text = self._sent(name)
        if not text and default is not None:
            return default
        if not _WHOLE.fullmatch(text) or not lowest <= int(text) <= highest:
            raise BadRequest("error.bad_number", name=name, lowest=lowest, highest=highest)
        return int(text)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return a field with one of several values. Raises BadRequest for any other value."""
        text = self._sent(name) or default
        if text not in choices:
            raise BadRequest("error.bad_choice", name=name, choices=", ".join(choices))
        return text

    def text(self, name: str, most: int = 100) -> str:
        """Return a text field, stripped. Raises BadRequest if it is longer than ``most`` characters."""
        text = self._sent(name).strip()
        if len(text) > most:
            raise BadRequest("error.too_long", name=name, most=most)
        return text

    @property
    def page(self) -> int:
        """Number of the requested page of a list, from 1."""
        return self.number("page", default=1, lowest=1, highest=MAX_PAGES)

    def rows(self) -> slice[int, int, None]:
        """Return the positions of the rows of the requested page."""
        return slice((self.page - 1) * PAGE, self.page * PAGE, None)

    def selected(self, name: str, most: int = 1000, longest: int = 500) -> list[str]:
        """Return all values of a form field. Raises BadRequest if there are too many or one is too long."""
        values = self.form.all(name)
        if len(values) > most or any(len(value) > longest for value in values):
            raise BadRequest("error.too_many_values", name=name, most=most, longest=longest)
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

    def unquoted(self, text: str) -> str:
        """Return a text that may quote arguments of a job; hidden if arguments are redacted."""
        return HIDDEN if text and self.options.redact is not None else text

    @property
    def wants_json(self) -> bool:
        """Whether the client is a program."""
        return self.query.get("format") == "json" if self.query.get("format") else self.http.wants_json

    def url(self, path: str, **query: object) -> str:
        """Return the URL of a path below this server's pages."""
        return self.base + path + _query(query)

    def here(self, **changes: object) -> str:
        """Return the URL of this page with changed query fields; None and "" remove a field."""
        merged: dict[str, object] = dict(self.query.pairs) | changes
        return self.base + self.location + _query(merged)

    def _sent(self, name: str) -> str:
        return self.form.get(name) if name in self.form else self.query.get(name)


def server_path(options: WebOptions, name: str) -> str:
    """Return the path of a server's pages, relative to the mount path."""
    return "" if name == options.first else f"/@{segment(name)}"


def _query(fields: Mapping[str, object]) -> str:
    kept = {name: str(value) for name, value in fields.items() if value is not None and value != ""}
    return f"?{urlencode(kept, errors='replace')}" if kept else ""
