"""From a page to HTML.

A template sees ``data``, what the page answered, and a few functions: ``t`` translates, ``url`` and ``here`` make
addresses, ``asset`` names a file, ``number``, ``moment``, ``span``, ``size`` and ``long_text`` show values, ``may``
tells whether a button is shown. ``layout`` is what all pages have in common.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2

from offsider.web import charts, display
from offsider.web.assets import own_assets
from offsider.web.segments import segment
from offsider.web.tabs import tab_assets

if TYPE_CHECKING:
    from offsider.web.layout import Layout
    from offsider.web.visit import Visit

FOLDER = Path(__file__).with_name("templates")


class KeysFirst(jinja2.Environment):
    """In a template ``data.items`` is what the page answered under that key, never a method of dict."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]  # pyright: ignore[reportUnknownVariableType]
        return super().getattr(obj, attribute)


@cache
def environment() -> jinja2.Environment:
    """Where templates are found and how they are read; everything that they put out is escaped."""
    made = KeysFirst(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    shared: dict[str, Any] = {"charts": charts, "segment": segment}
    cast("dict[str, Any]", made.globals).update(shared)
    return made


def warm() -> None:
    """Read every template now."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def render(template: str, visit: Visit, layout: Layout, data: object) -> str:
    """The HTML of a page."""
    locale = visit.locale

    def asset(name: str) -> str:
        shelf = own_assets() if name in own_assets() else tab_assets(visit.config)
        return f"{layout.root}/assets/{shelf.name_of(name)}"

    return (
        environment()
        .get_template(f"{template}.html")
        .render(
            data=data,
            layout=layout,
            t=visit.t,
            url=visit.url,
            here=visit.here,
            asset=asset,
            may=visit.may,
            number=locale.number,
            compact=locale.compact,
            moment=partial(display.moment, locale),
            exact=display.exact,
            span=partial(display.span, locale),
            size=partial(display.size, locale),
            cut=display.cut,
            long_text=partial(display.long_text, locale),
        )
    )
