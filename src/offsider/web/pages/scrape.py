"""``/metrics`` for Prometheus. Browsers, which accept ``text/html``, get the metrics page at the same address."""

from __future__ import annotations

from offsider.config.installation import Installation
from offsider.fleet.metrics import read_families
from offsider.prometheus.text import CONTENT_TYPE, text_of
from offsider.web.counters import cache_of
from offsider.web.page_request import PageRequest
from offsider.web.pages import metrics
from offsider.web.results import Answer, Text
from offsider.web.routing import Route

_PAGES = ("text/html", "application/json")
_SCRAPERS = ("application/openmetrics-text", "text/plain")


def wants_text(accept: str) -> bool:
    """Whether the client is a scraper: its ``Accept`` header names no format of the pages, as with ``curl``."""
    accepted = accept.lower()
    if "text/html" in accepted:
        return False
    return any(kind in accepted for kind in _SCRAPERS) or not any(kind in accepted for kind in _PAGES)


def show(request: PageRequest) -> Answer:
    """Return all metrics, up to a second old, however often they are scraped."""
    if request.query.get("format"):
        return metrics.index(request)
    return Text(cache_of(request.installation, _text).get(), CONTENT_TYPE)


def _text(here: Installation) -> str:
    return text_of(read_families(here))


ROUTES = [Route("GET", "/metrics", "metrics.scrape", show, wanted=wants_text)]
