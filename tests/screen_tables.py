"""The tables of a screen, read from its JSON."""

from __future__ import annotations

from typing import Any

#: The field of a cell that has its value; of all others it is the text.
_FIELDS = {"number": "value", "duration": "seconds", "time": "at", "spark": "values"}


def rows(page: dict[str, Any], title: str) -> list[dict[str, Any]]:
    """Return the values of each row of a table by column."""
    table = next(block for block in page["blocks"] if block.get("title") == title)
    return [dict(zip(table["columns"], map(value, row), strict=True)) for row in table["rows"]]


def value(cell: dict[str, Any]) -> Any:
    """Return the value of a cell."""
    if cell["is"] == "progress":
        return cell["done"], cell["total"]
    return cell[_FIELDS.get(cell["is"], "text")]
