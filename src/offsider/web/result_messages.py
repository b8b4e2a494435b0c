"""Messages about results and errors: translated for users, in English for programs and the log. The texts of all pages
are in ``locales/*.po``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from offsider.web.translation import ENGLISH, locales

#: Translates a message and inserts its values, like `offsider.web.page_request.PageRequest.t`.
Translate = Callable[..., str]


class Message:
    """One or several message ids with their values.

    >>> str(Message("done.deleted", count=3) + Message("done.gone", count=1))
    'Deleted 3 jobs. 1 job was already gone.'
    """

    def __init__(self, message: str, **values: Any) -> None:
        self.parts: tuple[tuple[str, Mapping[str, Any]], ...] = ((message, values),)

    def __add__(self, more: Message) -> Message:
        both = Message("")
        both.parts = (*self.parts, *more.parts)
        return both

    def __str__(self) -> str:
        return self.text(locales()[ENGLISH].translate)

    def text(self, t: Translate) -> str:
        """Return the text in the language of ``t``."""
        return " ".join(t(message, **values) for message, values in self.parts)


def with_gone(done: str, count: int, gone: int) -> Message:
    """Return the message about changed jobs, and about jobs that were already gone, if any."""
    changed = Message(done, count=count)
    return changed + Message("done.gone", count=gone) if gone else changed
