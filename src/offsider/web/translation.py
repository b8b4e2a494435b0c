"""The languages of the pages.

A text is looked up by its English words in ``locales/<code>.json``; one that is not there stays English. Numbers are
grouped as the language does it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("locales")
ENGLISH = "en"
RIGHT_TO_LEFT = frozenset({"ar", "fa", "he", "ur"})
#: Languages by what their speakers call them.
NAMES = {
    "ar": "العربية",
    "cs": "Čeština",
    "da": "Dansk",
    "de": "Deutsch",
    "el": "Ελληνικά",
    "en": "English",
    "es": "Español",
    "fa": "فارسی",
    "fr": "Français",
    "he": "עברית",
    "hi": "हिन्दी",
    "id": "Bahasa Indonesia",
    "it": "Italiano",
    "ja": "日本語",
    "ko": "한국어",
    "nb": "Norsk",
    "nl": "Nederlands",
    "pl": "Polski",
    "pt": "Português",
    "ru": "Русский",
    "sv": "Svenska",
    "tr": "Türkçe",
    "uk": "Українська",
    "ur": "اردو",
    "vi": "Tiếng Việt",
    "zh": "中文",
}
#: What stands between thousands; a comma in all other languages.
_GROUPS = {
    **dict.fromkeys(("da", "de", "el", "es", "id", "it", "nl", "pt", "tr", "vi"), "."),
    **dict.fromkeys(("cs", "fr", "nb", "pl", "ru", "sv", "uk"), "\N{NARROW NO-BREAK SPACE}"),
}
#: From which number on a unit is used, and how it is written.
_LARGE = ((1_000_000_000, "{count}B"), (1_000_000, "{count}M"))
#: Longer ones are written as 1.23e+400.
_GROUPED_BELOW = 10**18
_PLACE = re.compile(r"\{([a-z_]+)\}")
# An Accept-Language header is short; more of it is not read.
_MOST_RANGES = 20


@dataclass(frozen=True)
class Locale:
    """One language.

    Attributes:
        code: as in ``<html lang>``.
        texts: English text to its translation.
    """

    code: str
    texts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def direction(self) -> str:
        """``ltr`` or ``rtl``."""
        return "rtl" if self.code in RIGHT_TO_LEFT else "ltr"

    @property
    def name(self) -> str:
        """What its speakers call it."""
        return NAMES.get(self.code, self.code)

    def translate(self, text: str, **values: object) -> str:
        """The text in this language; ``{name}`` stands for a value, and a number is grouped."""
        found = self.texts.get(text) or text
        if not values:
            return found
        return _PLACE.sub(lambda place: self._shown(values.get(place[1], place[0])), found)

    def number(self, value: float, digits: int = 0) -> str:
        """A number with its thousands grouped, and so many digits after the point; whatever number it is."""
        if value != value or value in {math.inf, -math.inf}:  # noqa: PLR0124  # one that is none
            return "\N{EN DASH}"
        if abs(value) >= _GROUPED_BELOW:
            return f"{Decimal(value):.2e}"
        plain = f"{value:,.{digits}f}"
        if self.code not in _GROUPS:
            return plain
        return plain.translate({ord(","): _GROUPS[self.code], ord("."): ","})

    def compact(self, value: int) -> str:
        """A number of seven digits and more in millions: ``8.2M``; a smaller one as it is."""
        for least, text in _LARGE:
            if value >= least:
                # Cut and not rounded: 999.9 million are not a thousand million yet.
                tenths = value * 10 // least
                short = self.number(tenths / 10, 1) if tenths < 1000 else self.number(tenths // 10)
                return self.translate(text, count=short)
        return self.number(value)

    def _shown(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return self.number(value)
        return str(value)


@cache
def locales() -> Mapping[str, Locale]:
    """Every language there is, by code, in the order of their names."""
    found = {ENGLISH: Locale(ENGLISH)}
    for file in FOLDER.glob("*.json"):
        found[file.stem] = Locale(file.stem, json.loads(file.read_text("utf-8")))
    return dict(sorted(found.items(), key=lambda item: item[1].name.casefold()))


def preferred(chosen: str, accept_language: str) -> Locale:
    """The language that a visitor chose, else the best of those the browser asks for, else English."""
    known = locales()
    if chosen in known:
        return known[chosen]
    for code in _wanted(accept_language):
        for name in (code, code.partition("-")[0]):
            if name in known:
                return known[name]
    return known[ENGLISH]


def _wanted(accept_language: str) -> list[str]:
    ranges: list[tuple[float, str]] = []
    for item in accept_language[:1000].split(",")[:_MOST_RANGES]:
        code, _, rest = item.strip().partition(";")
        quality = rest.strip().removeprefix("q=")
        try:
            weight = float(quality) if rest else 1.0
        except ValueError:
            continue
        if weight > 0:
            ranges.append((weight, code.strip().lower()))
    return [code for _, code in sorted(ranges, key=lambda each: -each[0])]
