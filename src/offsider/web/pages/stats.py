"""Figures for programs: Sidekiq's ``/stats`` and ``/stats/queues``, and ``/metrics`` for Prometheus.

Browsers, which accept ``text/html``, get the page of classes from the same address.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from offsider.config.addresses import with_fields
from offsider.config.installation import Installation
from offsider.fleet.metrics import read_families
from offsider.prometheus.text import CONTENT_TYPE, text_of
from offsider.screens.classes import PATH as CLASSES
from offsider.screens.counters import cache_of, counters, server
from offsider.web.page_request import PageRequest
from offsider.web.results import Answer, Redirect, Text
from offsider.web.routing import LOOK, Route

KIND = "application/json"
#: Fields of INFO, unchanged.
_REDIS_KEYS = ("redis_version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human")
_PAGES = ("text/html", "application/json")
_SCRAPERS = ("application/openmetrics-text", "text/plain")


def show(request: PageRequest) -> Text:
    stats, info = counters(request.installation), server(request.installation)
    data = {
        "sidekiq": {
            "processed": stats.processed,
            "failed": stats.failed,
            "busy": stats.busy,
            "processes": stats.processes,
            "enqueued": stats.enqueued,
            "scheduled": stats.scheduled,
            "retries": stats.retries,
            "dead": stats.dead,
            "default_latency": stats.default_queue_latency_seconds,
        },
        "redis": {
            **{name: info.raw[name] for name in _REDIS_KEYS if name in info.raw},
            "store_name": info.store.capitalize(),
            "store_version": info.version,
        },
        "server_utc_time": datetime.fromtimestamp(time.time(), UTC).strftime("%H:%M:%S UTC"),
    }
    return Text(json.dumps(data), KIND)


def queues(request: PageRequest) -> Text:
    return Text(json.dumps(counters(request.installation).queues), KIND)


def wants_text(accept: str) -> bool:
    """Whether the client is a scraper: its ``Accept`` header names no format of the pages, as with ``curl``."""
    accepted = accept.lower()
    if "text/html" in accepted:
        return False
    return any(kind in accepted for kind in _SCRAPERS) or not any(kind in accepted for kind in _PAGES)


def scrape(request: PageRequest) -> Answer:
    """Return all metrics, up to a second old, however often they are scraped."""
    if request.query.get("format"):
        return Redirect(with_fields(CLASSES, **dict(request.query.pairs)))
    return Text(cache_of(request.installation, _text).get(), CONTENT_TYPE)


def _text(installation: Installation) -> str:
    return text_of(read_families(installation))


ROUTES = [
    Route("GET", "/stats", LOOK, show),
    Route("GET", "/stats/queues", LOOK, queues),
    Route("GET", "/metrics", "metrics.scrape", scrape, wanted=wants_text),
]
