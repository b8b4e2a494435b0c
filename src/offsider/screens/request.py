"""The fields of a request to a screen, checked."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from offsider.screens.errors import BadRequest
from offsider.screens.redaction import HIDDEN, Redact

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
#: Field with the key of a selected row.
SELECTED = "key"
#: Rows on a page of a list.
PAGE = 25
MAX_PAGES = 1_000_000


class ScreenRequest(ABC):
    """The fields and the path of a request.

    Attributes:
        parts: values of the placeholders in the route's path.
    """

    parts: Mapping[str, str]

    @property
    def redact(self) -> Redact | None:
        """Returns the arguments of jobs to show; None: all, as in a terminal."""
        return None

    @property
    def is_foreign(self) -> bool:
        """Whether another site made a browser send it."""
        return False

    def all(self, name: str) -> Sequence[str]:
        """Return all values of a field, such as the keys of selected rows. Raises BadRequest if there are too many."""
        return [self.sent(name)] if self.sent(name) else []

    @abstractmethod
    def sent(self, name: str) -> str:
        """Return a field as it was sent; empty without it."""

    def path(self, name: str) -> str:
        """Return the value of ``{name}`` in the route's path."""
        return self.parts[name]

    def number(self, name: str, default: int | None = 1, lowest: int = 1, highest: int = 1_000_000) -> int:
        """Return an integer field; None as default: it is required. Raises BadRequest if it is not valid."""
        text = self.sent(name)
        if not text and default is not None:
            return default
        if not _WHOLE.fullmatch(text) or not lowest <= int(text) <= highest:
            raise BadRequest("error.bad_number", name=name, lowest=lowest, highest=highest)
        return int(text)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return a field with one of several values. Raises BadRequest for any other value."""
        text = self.sent(name) or default
        if text not in choices:
            raise BadRequest("error.bad_choice", name=name, choices=", ".join(choices))
        return text

    def text(self, name: str, most: int = 100) -> str:
        """Return a text field, stripped. Raises BadRequest if it is longer than ``most`` characters."""
        text = self.sent(name).strip()
        if len(text) > most:
            raise BadRequest("error.too_long", name=name, most=most)
        return text

    def unquoted(self, text: str) -> str:
        """Return a text that may quote arguments of a job; hidden if arguments are redacted."""
        return HIDDEN if text and self.redact is not None else text

    @property
    def page(self) -> int:
        """Number of the requested page of a list, from 1."""
        return self.number("page", default=1, lowest=1, highest=MAX_PAGES)

    def rows(self) -> slice[int, int, None]:
        """Return the positions of the rows of the requested page."""
        return slice((self.page - 1) * PAGE, self.page * PAGE, None)
