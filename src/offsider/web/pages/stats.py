"""The counters for programs, in the form of Sidekiq's ``/stats`` and ``/stats/queues``."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from offsider.web.answers import Text
from offsider.web.counters import counters, server
from offsider.web.display import size
from offsider.web.routing import LOOK, Route
from offsider.web.translation import Locale
from offsider.web.visit import Visit

KIND = "application/json"
#: Sizes for programs are written as in English.
PLAIN = Locale("en")


def show(visit: Visit) -> Text:
    stats, info = counters(visit.config), server(visit.config)
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
            "redis_version": info.version,
            "uptime_in_days": info.uptime_days,
            "connected_clients": info.connected_clients,
            "used_memory_human": size(PLAIN, info.used_memory_bytes),
            "used_memory_peak_human": size(PLAIN, info.used_memory_peak_bytes),
            "store_name": info.store,
            "store_version": info.version,
        },
        "server_utc_time": datetime.fromtimestamp(time.time(), UTC).strftime("%H:%M:%S UTC"),
    }
    return Text(json.dumps(data), KIND)


def queues(visit: Visit) -> Text:
    return Text(json.dumps(counters(visit.config).queues), KIND)


ROUTES = [Route("GET", "/stats", LOOK, show), Route("GET", "/stats/queues", LOOK, queues)]
