"""What is said to people in their language, and to programs and the log in English."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

#: Looks up an English text and puts values in its places, as `offsider.web.visit.Visit.t` does.
Translate = Callable[..., str]
_PLACE = re.compile(r"\{([a-z_]+)\}")


class Words:
    """A sentence in English with what stands in its places, or several of them.

    >>> str(Words("Deleted: {count}", count=3) + Words("Gone meanwhile: {count}", count=1))
    'Deleted: 3; Gone meanwhile: 1'
    """

    def __init__(self, text: str, **values: object) -> None:
        self.parts: tuple[tuple[str, Mapping[str, object]], ...] = ((text, values),)

    def __add__(self, more: Words) -> Words:
        both = Words("")
        both.parts = (*self.parts, *more.parts)
        return both

    def __str__(self) -> str:
        return "; ".join(_filled(text, values) for text, values in self.parts)

    def said(self, t: Translate) -> str:
        """In the language that ``t`` translates to."""
        return "; ".join(t(text, **values) for text, values in self.parts)


def counted(done: str, count: int, gone: int) -> Words:
    """How many it was done to, and how many had left before."""
    told = Words(done, count=count)
    return told + Words("Gone meanwhile: {count}", count=gone) if gone else told


def _filled(text: str, values: Mapping[str, object]) -> str:
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)
