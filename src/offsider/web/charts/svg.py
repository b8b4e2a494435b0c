"""Elements of charts. Attributes and text are escaped here."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup, escape


def element(name: str, attributes: Mapping[str, object], *children: str) -> Markup:
    """Build an element; children that are not markup are escaped."""
    written = "".join(f' {key}="{escape(_value(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")  # noqa: S704 - all parts are escaped


def percent(share: float) -> str:
    """Return a length or position, a fraction (0 to 1) of the chart's width, in percent."""
    return f"{_number(share * 100)}%"


def _value(value: object) -> str:
    return _number(value) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return f"{round(value, 2):g}" if abs(value) < 1e5 else str(round(value))
