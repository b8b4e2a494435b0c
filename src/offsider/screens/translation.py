"""The texts of the web UI: ``locales/en.po`` is their catalog, message ids and texts in gettext's format."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from struct import pack

FOLDER = Path(__file__).with_name("locales")
#: Larger numbers are written as 1.23e+400.
_GROUPED_BELOW = 10**18
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_FIELD = re.compile(r'^(msgid|msgstr)(?:_plural|\[\d\])? ((?:".*"\n?)+)', re.MULTILINE)
_MO_MAGIC, _MO_HEADER_BYTES = 0x950412DE, 28


@dataclass(frozen=True)
class Language:
    """A language.

    Attributes:
        code: as in ``<html lang>``.
        catalog: its messages.
    """

    code: str
    catalog: NullTranslations = field(default_factory=NullTranslations, repr=False)

    @property
    def direction(self) -> str:
        """``ltr`` or ``rtl``."""
        return self.translate("language.direction")

    def translate(self, message: str, count: int | None = None, **values: object) -> str:
        """Return the text of a message with its placeholders ``{name}`` filled in. ``count`` selects the plural form.

        A text that is not an id is returned unchanged, such as a Redis error or the title of an extension.
        """
        if not message:
            return ""  # the empty id is the catalog's header
        if count is None:
            text = self.catalog.gettext(message)
        else:
            text, values = self.catalog.ngettext(message, message, count), {"count": count, **values}
        return _PLACEHOLDER.sub(lambda found: self._shown(values.get(found[1], found[0])), text) if values else text

    def number(self, value: float, digits: int = 0) -> str:
        """Format a number with grouped thousands and a fixed number of decimals."""
        if value != value or value in {math.inf, -math.inf}:  # noqa: PLR0124  # NaN differs from itself
            return "\N{EN DASH}"
        if abs(value) >= _GROUPED_BELOW:
            return f"{Decimal(value):.2e}"
        thousands, decimal = self.translate("language.thousands"), self.translate("language.decimal")
        return f"{value:,.{digits}f}".translate({ord(","): thousands, ord("."): decimal})

    def _shown(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return self.number(value)
        return str(value)


@cache
def english() -> Language:
    """Return the only language so far."""
    return Language("en", read_catalog(FOLDER.joinpath("en.po").read_text("utf-8")))


def read_catalog(text: str) -> GNUTranslations:
    """Parse the text of a ``.po`` file.

    `gettext` reads only the binary format, so the text is compiled here, without a build step or a second copy.
    """
    messages: dict[bytes, bytes] = {}
    for entry in text.split("\n\n"):
        parts: dict[str, list[str]] = {"msgid": [], "msgstr": []}
        for name, lines in _FIELD.findall(entry):
            parts[name].append("".join(map(json.loads, lines.splitlines())))
        if any(parts["msgstr"]):
            messages["\0".join(parts["msgid"]).encode()] = "\0".join(parts["msgstr"]).encode()
    index, strings = b"", b""
    start = _MO_HEADER_BYTES + 16 * len(messages)
    for each in (*messages.keys(), *messages.values()):
        index += pack("<2I", len(each), start + len(strings))
        strings += each + b"\0"
    header = pack("<7I", _MO_MAGIC, 0, len(messages), _MO_HEADER_BYTES, _MO_HEADER_BYTES + 8 * len(messages), 0, 0)
    return GNUTranslations(BytesIO(header + index + strings))
