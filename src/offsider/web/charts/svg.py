"""The elements of a chart as markup: attributes and text are escaped here, so a chart cannot forget it."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup, escape


def element(name: str, attributes: Mapping[str, object], *children: str) -> Markup:
    """One element; children that are not markup yet are text, and escaped."""
    written = "".join(f' {key}="{escape(_value(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")  # noqa: S704 - all parts are escaped


def percent(share: float) -> str:
    """A length or a place as a share (0 to 1) of the chart's width, which only the browser knows."""
    return f"{_number(share * 100)}%"


def _value(value: object) -> str:
    return _number(value) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return f"{round(value, 2):g}" if abs(value) < 1e5 else str(round(value))
