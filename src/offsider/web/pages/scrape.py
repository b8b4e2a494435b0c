"""``/metrics`` as Prometheus asks for it. People, who name ``text/html``, get the page at the same address."""

from __future__ import annotations

from functools import partial

from offsider.inspector.exposition import CONTENT_TYPE, fleet_text
from offsider.web.answers import Answer, Text
from offsider.web.fresh import Fresh
from offsider.web.pages import metrics
from offsider.web.routing import Route
from offsider.web.visit import Visit

_PAGES = ("text/html", "application/json")
_SCRAPERS = ("application/openmetrics-text", "text/plain")


def wants_text(accept: str) -> bool:
    """Whether a scraper asks: it names its format, or, as ``curl`` does, none of those that pages have."""
    accepted = accept.lower()
    if "text/html" in accepted:
        return False
    return any(kind in accepted for kind in _SCRAPERS) or not any(kind in accepted for kind in _PAGES)


def show(visit: Visit) -> Answer:
    """Everything in one text, at most a second old, whoever scrapes how often."""
    if visit.query.get("format"):
        return metrics.index(visit)
    text = visit.config.kept.get(_Scrape, lambda: _Scrape(partial(fleet_text, visit.config)))
    return Text(text.get(), CONTENT_TYPE)


class _Scrape(Fresh[str]):
    """The text of one server, kept with its configuration."""


ROUTES = [Route("GET", "/metrics", "metrics.scrape", show, wanted=wants_text)]
