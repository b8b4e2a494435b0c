"""Kinds of values: what a setting or a job option expects, and how its text is parsed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.arguments import is_unicode
from offsider.core.clock import as_seconds
from offsider.core.removed import message


@dataclass(frozen=True)
class Kind:
    """The type of a setting or an option.

    Attributes:
        expects: completes the sentence "the setting expects …".
        check: returns the value in its final form; raises ValueError, with or without details, if it is invalid.
        parse: converts the text of an environment variable or an option to a value for `check`.
        secret: whether messages must not contain the value.
    """

    expects: str
    check: Callable[[object], Any]
    parse: Callable[[str], object] = str
    secret: bool = False


def kind(
    expects: str,
    accepts: Callable[[Any], bool],
    parse: Callable[[str], object] = str,
    *,
    final: Callable[[Any], Any] = lambda value: value,
) -> Kind:
    """A kind whose values are those that ``accepts`` returns True for; ``final`` converts them."""

    def check(value: object) -> Any:
        if not accepts(value):
            raise ValueError
        return final(value)

    return Kind(expects, check, parse)


def converted(convert: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that leaves text which cannot be converted as it is: `Kind.check` refuses it with the whole message."""

    def parse(text: str) -> object:
        try:
            return convert(text)
        except ValueError:
            return text

    return parse


def is_number(value: object, *, whole: bool = False) -> bool:
    """Whether a value is a number, and not a bool."""
    return isinstance(value, int if whole else int | float) and not isinstance(value, bool)


def whole(minimum: int, maximum: float = math.inf, *, or_zero: bool = False) -> Kind:
    """An int within bounds, or 0 if ``or_zero``."""
    bounds = f">= {minimum}" if maximum == math.inf else f"from {minimum} to {maximum}"
    return kind(
        f"{'0, or ' if or_zero else ''}a whole number {bounds}",
        lambda value: is_number(value, whole=True) and (minimum <= value <= maximum or (or_zero and value == 0)),
        converted(int),
    )


def seconds(*, minimum: float = 0.0, above: bool = False) -> Kind:
    """A finite number of seconds, as a float."""
    return kind(
        f"a number of seconds {'>' if above else '>='} {minimum:g}",
        lambda value: is_number(value) and minimum <= value < math.inf and not (above and value == minimum),
        converted(float),
        final=float,
    )


def choice(*words: str, synonyms: Mapping[str, str] | None = None) -> Kind:
    """One of several words, case-insensitive. The message about a removed log format names its replacement."""
    meanings = {word: word for word in words} | dict(synonyms or {})

    def check(value: object) -> str:
        if isinstance(value, str) and value.lower() in meanings:
            return meanings[value.lower()]
        raise ValueError(message("log format", value) if isinstance(value, str) else "")

    return Kind(f"one of {', '.join(words)}", check)


def text(pattern: str = ".*", expects: str = "a string", *, secret: bool = False) -> Kind:
    """A string that matches a pattern completely."""

    def check(value: object) -> str:
        if not isinstance(value, str) or re.fullmatch(pattern, value, re.DOTALL) is None:
            raise ValueError
        if not is_unicode(value):  # an environment variable may contain any bytes
            raise ValueError("it is not valid UTF-8")
        return value

    return Kind(expects, check, secret=secret)


def names(expects: str = "a list of strings") -> Kind:
    """A tuple of strings; a single string is accepted as a list of one."""

    def check(value: object) -> tuple[str, ...]:
        items = items_of(value)
        if not all(isinstance(item, str) and item.strip() for item in items):
            raise ValueError
        return tuple(str(item).strip() for item in items)

    return Kind(expects, check, words_in)


def words_in(text: str) -> list[str]:
    """Return the words of a text that commas and spaces separate."""
    return re.findall(r"[^,\s]+", text)


def items_of(value: object) -> tuple[object, ...]:
    """Return the items of a list; a single string is a list of one."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple):
        return tuple(cast("Sequence[object]", value))
    raise ValueError


_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def flag(text: str) -> object:
    """Return the flag that a text contains; other text unchanged."""
    return _FLAGS.get(text.strip().lower(), text)


def literal(text: str) -> object:
    """Return the number or the flag that a text contains; other text unchanged."""
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return flag(text)


FLAG = kind(
    "true or false", lambda value: isinstance(value, bool), lambda value: flag(value) if value.strip() else False
)
SHARE = kind(
    "a number between 0 and 1", lambda value: is_number(value) and 0 < value < 1, converted(float), final=float
)
#: A number of seconds or a timedelta, which stays one.
DURATION = kind(
    "a positive number of seconds (up to 1,000,000,000) or a timedelta",
    lambda value: as_seconds(value, "it") > 0,
    literal,
)
