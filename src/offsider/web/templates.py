"""Render pages as HTML.

A template has ``data``, the data of the page, ``layout``, the frame of all pages, and some functions: ``t`` translates,
``url`` and ``here`` return addresses, ``asset`` returns the URL of a file, ``number``, ``percent``, ``moment``,
``span``, ``size`` and ``long_text`` format values, and ``may`` returns whether to show a button.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jinja2

from offsider.web import charts, display
from offsider.web.assets import own_assets
from offsider.web.extension_tabs import tab_assets
from offsider.web.segments import segment

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest

FOLDER = Path(__file__).with_name("templates")


class KeysFirst(jinja2.Environment):
    """Look up keys before attributes: ``data.items`` is the value under that key, never a method of dict."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]  # pyright: ignore[reportUnknownVariableType]
        return super().getattr(obj, attribute)


@cache
def environment() -> jinja2.Environment:
    """Return the template environment; all output is escaped."""
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
    """Compile all templates now."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def render(template: str, request: PageRequest, layout: Mapping[str, Any], data: object) -> str:
    """Return the HTML of a page."""
    locale = request.locale

    def asset(name: str) -> str:
        shelf = own_assets() if name in own_assets() else tab_assets(request.installation)
        return f"{layout['root']}/assets/{shelf.name_of(name)}"

    return (
        environment()
        .get_template(f"{template}.html")
        .render(
            data=data,
            layout=layout,
            t=request.t,
            url=request.url,
            here=request.here,
            asset=asset,
            may=request.may,
            number=locale.number,
            percent=locale.percent,
            compact=locale.compact,
            moment=partial(display.moment, locale),
            exact=display.exact,
            span=partial(display.span, locale),
            size=partial(display.size, locale),
            cut=display.cut,
            long_text=partial(display.long_text, locale),
        )
    )
