"""Counters for programs, in the format of Sidekiq's ``/stats`` and ``/stats/queues``."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from offsider.web.counters import counters, server
from offsider.web.page_request import PageRequest
from offsider.web.results import Text
from offsider.web.routing import LOOK, Route

KIND = "application/json"
#: Fields of INFO, unchanged.
_REDIS_KEYS = ("redis_version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human")


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


ROUTES = [Route("GET", "/stats", LOOK, show), Route("GET", "/stats/queues", LOOK, queues)]
