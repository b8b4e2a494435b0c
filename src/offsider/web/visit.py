"""One request as a page sees it: which server, who, what was asked, within which bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import urlencode

from offsider.web.answers import BadRequest
from offsider.web.forms import Fields
from offsider.web.options import WebOptions
from offsider.web.redaction import redacted
from offsider.web.request import Request
from offsider.web.segments import segment
from offsider.web.translation import Locale
from offsider.wiring.config import Config
from offsider.wiring.logs import logger

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_TOO_LONG = "{name} has to be at most {most} letters long."
AUTO = "auto"
THEMES = (AUTO, "light", "dark")
LOCALE_COOKIE = "offsider_locale"
THEME_COOKIE = "offsider_theme"


@dataclass(frozen=True)
class Visit:
    """One request to one server's pages.

    Attributes:
        config: of the server whose pages are looked at.
        server: its name.
        location: the path below its pages, quoted.
        parts: what stands in the place of the braces of the route's path.
        query, form: the fields that were sent.
        who: the visitor's name; empty when nobody is asked for one.
        locale: the language to answer in.
        theme: ``light``, ``dark``, or ``auto`` for what the browser prefers.
    """

    request: Request
    options: WebOptions
    server: str
    location: str
    query: Fields
    form: Fields
    locale: Locale
    who: str = ""
    theme: str = AUTO
    parts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def config(self) -> Config:
        return self.options.servers[self.server]

    @property
    def base(self) -> str:
        """What stands before the paths of this server's pages: where they are mounted, and which server."""
        return self.request.root + server_path(self.options, self.server)

    @property
    def read_only(self) -> bool:
        return self.options.read_only

    @property
    def is_confirmed(self) -> bool:
        """Whether it was made sure that the action is meant: by our script, by the page that asks, or by a program."""
        return self.wants_json or self.form.get("confirmed") == "yes"

    def at(self, parts: Mapping[str, str]) -> Visit:
        """The same visit, its route known."""
        return replace(self, parts=parts)

    def t(self, text: str, **values: object) -> str:
        """An English text in the visitor's language, ``{names}`` replaced."""
        return self.locale.translate(text, **values)

    def path(self, name: str) -> str:
        """What stands in the place of ``{name}`` in the route's path."""
        return self.parts[name]

    def number(self, name: str, default: int = 1, lowest: int = 1, highest: int = 1_000_000) -> int:
        """A whole number that was sent. Raises BadRequest when it is none, or out of bounds."""
        text = self._sent(name)
        if not text:
            return default
        if not _WHOLE.fullmatch(text) or not lowest <= int(text) <= highest:
            raise BadRequest(
                "{name} has to be a whole number from {lowest} to {highest}.", name=name, lowest=lowest, highest=highest
            )
        return int(text)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of several words. Raises BadRequest for any other."""
        text = self._sent(name) or default
        if text not in choices:
            raise BadRequest("{name} has to be one of {choices}.", name=name, choices=", ".join(choices))
        return text

    def text(self, name: str, most: int = 100) -> str:
        """Text that was sent, without blanks around it. Raises BadRequest when it has more letters than ``most``."""
        text = self._sent(name).strip()
        if len(text) > most:
            raise BadRequest(_TOO_LONG, name=name, most=most)
        return text

    def selected(self, name: str, most: int = 1000, longest: int = 500) -> list[str]:
        """Every value of a field of the form. Raises BadRequest when they are too many or too long."""
        values = self.form.all(name)
        if len(values) > most or any(len(value) > longest for value in values):
            raise BadRequest(
                "{name}: at most {most} values of at most {longest} letters.", name=name, most=most, longest=longest
            )
        return values

    def may(self, action: str) -> bool:
        """Whether the visitor may do something, so that its button is shown."""
        return not self.read_only and self.is_authorized(action)

    def is_authorized(self, action: str) -> bool:
        """Whether the application lets the visitor look, or act, so."""
        if self.options.authorize is None:
            return True
        answer = cast("object", self.options.authorize(self, action))
        if not isinstance(answer, bool):
            logger.warning("authorize(…, %r) answered a %s: only True lets in", action, type(answer).__name__)
        return answer is True

    def redacted(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of a job as this visitor may see them."""
        return redacted(self.options.redact, name, args, kwargs)

    @property
    def wants_json(self) -> bool:
        """Whether a program asked."""
        return self.query.get("format") == "json" if self.query.get("format") else self.request.wants_json

    def url(self, path: str, **query: object) -> str:
        """The address of a path below this server's pages."""
        return self.base + path + _query(query)

    def here(self, **changes: object) -> str:
        """The address of this page with some fields of the query changed; None and an empty text leave one out."""
        merged: dict[str, object] = dict(self.query.pairs) | changes
        return self.base + self.location + _query(merged)

    def _sent(self, name: str) -> str:
        return self.form.get(name) if name in self.form else self.query.get(name)


def server_path(options: WebOptions, name: str) -> str:
    """Where the pages of a server begin, below where all of them are mounted."""
    return "" if name == options.first else f"/@{segment(name)}"


def _query(fields: Mapping[str, object]) -> str:
    kept = {name: str(value) for name, value in fields.items() if value is not None and value != ""}
    return f"?{urlencode(kept, errors='replace')}" if kept else ""
