"""The pages; each module has the routes of one resource."""

from __future__ import annotations

from importlib import import_module

from offsider.web.routing import Route

#: Modules in the order in which their routes are tried.
PAGES = (
    "stats",
    "now",
    "find",
    "job",
    "redirects",
)


def routes() -> list[Route]:
    """Return the routes of all pages."""
    return [route for page in PAGES for route in import_module(f"offsider.web.pages.{page}").ROUTES]
