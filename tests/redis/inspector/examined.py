"""An examination by name of the check, and processes and jobs to be examined."""

from __future__ import annotations

import json
import time
from typing import Any

import redis

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector.finding import Finding
from offsider.inspector.findings.examination import examine
from offsider.inspector.findings.look import Look
from offsider.storage.clocks import Comparison

OURS, RUBYS = "web-1:17:0123456789ab", "web-2:18:ab0123456789"


def examined(url: str, **settings: object) -> dict[str, Finding]:
    """What the doctor finds; settings are those of ``[redis]``."""
    config = Config()
    config.redis.url = url
    for name, value in settings.items():
        setattr(config.redis, name, value)
    return {finding.name: finding for finding in examine(config)}


def look(config: Config, clock: Comparison) -> Look:
    """A look at a server, with another clock."""
    found = Look(Installation.of(config))
    vars(found)["clock"] = clock  # as if it was read
    return found


def register(client: redis.Redis, identity: str = OURS, *, knows: list[str] | None = None, **changed: Any) -> None:
    """A live process: one of ours if it reports its jobs, otherwise one of Ruby's."""
    host, pid, _ = identity.split(":")
    info = {"hostname": host, "pid": int(pid), "queues": ["default"], "concurrency": 5, "version": "8.1.7"}
    fields = {"busy": 1, "quiet": "false", "beat": time.time(), "rtt_us": 100, "rss": 1}
    info |= {name: value for name, value in changed.items() if name not in fields}
    fields |= {name: value for name, value in changed.items() if name in fields}
    client.sadd("processes", identity)
    client.hset(identity, mapping=fields | {"info": json.dumps(info)})
    if knows is not None:
        client.hset(identity, "jobs", json.dumps(dict.fromkeys(knows, "5ca1ab1e")))
        client.hset("offsider:owners", identity, '{"default": ["default"]}')
        client.set(f"offsider:alive:{identity}", "1", ex=60)


def push(client: redis.Redis, *names: str, queue: str = "default") -> None:
    """Jobs of these names."""
    client.sadd("queues", queue)
    for name in names:
        client.lpush(f"queue:{queue}", payload(name, queue))


def payload(name: str, queue: str = "default", jid: str = "") -> str:
    return json.dumps({"class": name, "args": [], "queue": queue, "jid": jid or "0" * 24})


def enqueue(client: redis.Redis, age_seconds: float, *, queue: str = "default", jobs: int = 3) -> None:
    """Jobs that have waited for this time."""
    client.sadd("queues", queue)
    at = int((time.time() - age_seconds) * 1000)
    for number in range(jobs):
        job = json.loads(payload("A", queue, f"{number:024}"))
        client.lpush(f"queue:{queue}", json.dumps(job | {"enqueued_at": at}))
