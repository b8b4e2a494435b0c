"""Blocks of a page by title, as programs read them."""

from __future__ import annotations

from typing import Any


def block(page: dict[str, Any], title: str) -> dict[str, Any]:
    """The first block with a title."""
    return next(each for each in page["blocks"] if each.get("title") == title)


def rows(page: dict[str, Any], title: str) -> list[dict[str, Any]]:
    """The rows of a table by the names of its columns."""
    table = next(each for each in page["blocks"] if each["is"] == "table" and each["title"] == title)
    return [{name: value(cell) for name, cell in zip(table["columns"], row, strict=True)} for row in table["rows"]]


def facts(page: dict[str, Any], title: str) -> dict[str, Any]:
    """The values of facts by name."""
    return {fact["name"]: value(fact["cell"]) for fact in block(page, title)["facts"]}


def bars(page: dict[str, Any], title: str) -> dict[str, list[float]]:
    """The values of a chart by series."""
    return {each["name"]: each["values"] for each in block(page, title)["bars"]}


def value(cell: dict[str, Any]) -> Any:
    """The value of a cell."""
    return next((cell[name] for name in ("value", "at", "text", "values", "links") if name in cell), None)
