"""A small fleet as its processes would have written it."""

from __future__ import annotations

import json
import time
from typing import Any

from offsider.core.controls import Control
from offsider.core.payload import encode
from offsider.core.series import DURATION_SECONDS, Load, Series
from offsider.storage import control_table, run_counts
from offsider.storage.redis import Redis


def seed(client: Any, redis: Redis) -> None:
    """Two hosts, three processes of which one is quiet, two shards, two queues of which one is paused, and counts."""
    now = time.time()
    for host, pid, queues, concurrency, busy, quiet, rss, shard in (
        ("one", 1, ["default", "low"], 5, 2, "false", 1000, "bulk"),
        ("one", 2, ["default"], 10, 0, "true", 2000, ""),
        ("two", 3, ["default"], 20, 1, "false", 4000, ""),
    ):
        identity = f"{host}:{pid}:abcdefabcdef"
        info: dict[str, Any] = {
            "hostname": host,
            "pid": pid,
            "started_at": now - 100,
            "concurrency": concurrency,
            "queues": queues,
        }
        info["shard"] = shard
        client.sadd("processes", identity)
        fields = {"info": json.dumps(info), "busy": busy, "beat": now, "quiet": quiet, "rss": rss, "rtt_us": 100}
        client.hset(identity, mapping=fields)
    control_table.put(redis, Control("Export", "drop"))
    control_table.count(redis, {"Export": 12})
    client.set("dear-leader", "two:3:abcdefabcdef")
    works = [("one:1:abcdefabcdef", "t1", "low", 50), ("one:1:abcdefabcdef", "t2", "low", 20)]
    works += [("two:3:abcdefabcdef", "t3", "default", 5)]
    for identity, tid, queue, age in works:
        payload = {"class": "Mail", "args": [], "jid": f"{age:024x}"}
        work = {"queue": queue, "payload": json.dumps(payload), "run_at": int(now - age)}
        client.hset(f"{identity}:work", tid, json.dumps(work))
    client.mset({"stat:processed": 70, "stat:failed": 7})
    client.sadd("queues", "default", "unserved")
    client.sadd("paused", "default")
    job = {"class": "Mail", "args": [], "jid": "0" * 24, "enqueued_at": int((now - 30) * 1000)}
    client.lpush("queue:unserved", encode(job))
    client.zadd("schedule", {"late": now - 10, "early": now + 1000})
    waits = {"class": "New", "args": [], "jid": "1" * 24, "queue": "default", "stranded_at": int((now - 90) * 1000)}
    client.zadd("schedule", {encode(waits): now + 60})
    client.hset("offsider:stranded", "New", "New is not declared")
    client.hset("offsider:stranded:counts", "New", 4)
    client.hset("offsider:expired", "New", 3)
    client.zadd("retry", {"early": now + 1000})
    client.zadd("dead", {"gone": now})
    labels = {"urgency": "high", "feature_category": "post", "shard": "bulk"}
    mail = Series(
        {"class": "Mail", "queue": "low", **labels}, processed=4, failed=1, run_seconds=2.5, queue_seconds=1.0
    )
    mail.satisfied = 2
    mail.run_buckets[DURATION_SECONDS.index(0.5)] = mail.queue_buckets[1] = 4
    other = Series({"class": "Mail", "queue": "default", "tenant": "acme"}, processed=6, run_seconds=0.5)
    other.run_buckets[0] = other.satisfied = 6
    run_counts.add(redis, [mail, other], now, wire_version=8, load=Load(30.0, 100.0), shard="bulk")
