"""Messages: translated for users, and in English for programs and the log. Their texts are in ``locales/en.po``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offsider.screens.translation import english

#: Translates a message and inserts its values, like `Language.translate`.
Translate = Callable[..., str]


class Message:
    """A message id with its values; any other text is its own message.

    >>> str(Message("error.no_page"))
    'Page not found.'
    """

    def __init__(self, message: str, **values: Any) -> None:
        self._message = message
        self._values = values

    def __str__(self) -> str:
        return self.text(english().translate)

    def text(self, t: Translate) -> str:
        """Return the text in the language of ``t``."""
        return t(self._message, **self._values)
