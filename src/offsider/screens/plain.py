"""Pages of screens as JSON values: the templates and the terminal render them, and programs receive them.

Each cell and block has its kind under ``is``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from offsider.config.addresses import ScreenPath
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebChart,
    WebCount,
    WebDuration,
    WebFacts,
    WebForm,
    WebHeatMap,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebProgress,
    WebSpark,
    WebTable,
    WebText,
    WebTime,
    is_path,
)
from offsider.core.clock import END_OF_TIME

#: Maximum characters of a text in lists.
LINE_LETTERS = 100
#: Maximum characters of a text in pages that list many.
MAX_LETTERS = 2048
#: Names of the kinds that are shown field by field, and of charts.
_KINDS: Mapping[type, str] = {
    WebBadge: "badge",
    WebDuration: "duration",
    WebProgress: "progress",
    WebSpark: "spark",
    WebNote: "note",
    WebText: "text",
    WebChart: "chart",
    WebHeatMap: "heat",
}
#: Characters allowed in a path and its query; all others, including the backslash, are quoted.
_AS_THEY_ARE = "/:@!$&'()*+,;=~%?#[]"

_NUMERIC = ("number", "duration")


def page(found: WebPage) -> dict[str, Any]:
    """Return a page."""
    return {"title": found.title, "subject": found.subject, "blocks": [block(each) for each in found.blocks]}


def cell(value: object) -> dict[str, Any]:
    """Return a cell."""
    match value:
        case WebLink():
            path = _address(value.path)
            shown = {"is": "link", "text": value.text, "path": path} if path else _text_or_number(value.text)
            return shown if value.count is None else shown | {"count": value.count}
        case WebLinks():
            return {"is": "links", "links": [cell(each) for each in value.links]}
        case WebTime():
            return {"is": "time", "at": moment(value.at)}
        case WebBadge() | WebDuration() | WebProgress() | WebSpark():
            return {"is": _KINDS[type(value)], **asdict(value)}
        case WebButton():
            return _button(value)
        case _:
            return _text_or_number(value)


def block(value: object) -> dict[str, Any]:  # noqa: PLR0911  # one for each kind
    """Return a block."""
    match value:
        case WebTable():
            rows = [[cell(each) for each in row] for row in value.rows]
            return {
                "is": "table",
                "title": value.title,
                "columns": list(value.columns),
                "numeric": sorted({at for row in rows for at, each in enumerate(row) if each["is"] in _NUMERIC}),
                "rows": rows,
                "empty": value.empty,
                "total": value.pager.total if isinstance(value.pager, WebPager) else len(rows),
                "more": None if value.more is None else cell(value.more),
                "keys": list(value.keys),
                "buttons": _buttons(value.actions),
                "sorts": {column: _address(path) for column, path in value.sort.items()},
            }
        case WebFacts():
            return {"is": "facts", "title": value.title, "facts": _facts(value.facts)}
        case WebCount():
            doing = None if value.doing is None else _button(value.doing)
            shown = {"more": _address(value.more), "facts": _facts(value.facts), "buttons": _buttons(value.buttons)}
            return {"is": "count", **vars(value), **shown, "doing": doing}
        case WebNote() | WebText():
            return {"is": _KINDS[type(value)], **asdict(value)}
        case WebChart() | WebHeatMap():
            return _chart(value)
        case WebButtons():
            return {"is": "buttons", "buttons": _buttons(value.buttons)}
        case WebForm():
            return {"is": "form", **asdict(value), "buttons": _buttons(value.buttons)}
        case _:
            raise TypeError(f"a page consists of blocks, such as WebTable or WebFacts, got {type(value).__name__}")


def _chart(value: WebChart | WebHeatMap) -> dict[str, Any]:
    shown = {
        "is": _KINDS[type(value)],
        "title": value.title,
        "starts_at": value.starts_at,
        "step_seconds": value.step_seconds,
        "marks": [{"at": at, "label": label} for at, label in value.marks],
    }
    if isinstance(value, WebChart):
        bars = [
            {"name": name, "values": list(values), "tone": value.tones.get(name, "")}
            for name, values in value.bars.items()
        ]
        return shown | {"bars": bars, "unit": value.unit}
    none = [0] * max(map(len, value.rows.values()), default=0)
    rows = [
        {"name": name, "values": list(counts), "failed": list(value.failed.get(name, none))}
        for name, counts in value.rows.items()
    ]
    return shown | {"rows": rows}


def cut(text: str, most: int = LINE_LETTERS) -> str:
    """Cut a text, with an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def is_finite(value: float) -> bool:
    """Whether a number fits into a float: JSON may contain integers of 400 digits."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def moment(seconds: float | None) -> float | None:
    """Return epoch seconds if they are a valid date; None for anything else, because payloads may contain anything."""
    if seconds is None or not is_finite(seconds) or not 0 <= seconds < END_OF_TIME:
        return None
    return seconds


def _text_or_number(value: object) -> dict[str, Any]:
    if isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value):
        return {"is": "number", "value": value, "digits": 0 if isinstance(value, int) else 2}
    return {"is": "text", "text": "" if value is None else str(value)}


def _address(path: str) -> str:
    """Quote a path for a link; empty if it is not a path. The value comes from the extension, so it is not trusted."""
    return ScreenPath(quote(path, safe=_AS_THEY_ARE, errors="replace")) if is_path(path) else ""


def _facts(facts: Mapping[str, Cell]) -> list[dict[str, Any]]:
    return [{"name": name, "cell": cell(each)} for name, each in facts.items()]


def _buttons(buttons: Iterable[WebButton]) -> list[dict[str, Any]]:
    return [*map(_button, buttons)]


def _button(button: WebButton) -> dict[str, Any]:
    path = _address(button.path)
    if not path:
        return _text_or_number(button.text)
    return {"is": "button", **asdict(button), "path": path}
