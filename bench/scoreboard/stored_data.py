"""Test data for every kind of information that pages show, as workers of either language store it.

    store_data(server.raw, lambda field: f"plain {field}")
    store_data(server.raw, lambda field: "<script>xss()</script>")

The function returns each text that a page may show; it receives the name of the field. The data does not expire during
a row, and no worker runs.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from offsider.core.compression import compress_backtrace

#: Field -> its text.
Words: TypeAlias = Callable[[str], str]
KEPT_SECONDS = 600
JOBS = 3
BITFIELD = (1, 4, 9)


def store_data(raw: Any, words: Words, *, seed: int = 0) -> StoredData:
    """Store all data; different values of ``seed`` allow several sets of texts on one server."""
    stored = StoredData(words, seed)
    with raw.pipeline(transaction=False) as pipeline:
        for place in (queues, sets, aside, processes, metrics, promises, controlled, errors):
            place(pipeline, stored)
        pipeline.execute(raise_on_error=True)
    return stored


class StoredData:
    """The stored names and ids that addresses contain."""

    def __init__(self, words: Words, seed: int) -> None:
        self.words = words
        self.seed = seed
        self.now = time.time()
        self.name = words("class")
        #: key names are bytes, so they cannot contain text without a UTF-8 form (a lone surrogate)
        self.queue = safe(words("queue")).decode()
        self.identity = f"{words('hostname')}:1000:{seed:012x}"
        self.group = f"{seed:016x}"
        #: of the paused queue
        self.finding = f"paused:{self.queue}"
        self.jids: list[str] = []
        #: of a running job, and of one in quarantine
        self.running = self.quarantined = ""
        #: set -> ``score|jid`` of its entries
        self.keys: dict[str, list[str]] = {}

    def jid(self) -> str:
        self.jids.append(f"{self.seed * 1000 + len(self.jids):024x}")
        return self.jids[-1]

    def job(self, **fields: Any) -> dict[str, Any]:
        """A payload."""
        words, at_ms = self.words, int(self.now * 1000) - 60_000
        return {
            "class": self.name,
            "jid": self.jid(),
            "queue": self.queue,
            "args": [words("argument"), {words("key"): [words("value"), 1, None, True, 0.5]}],
            "kwargs": {"name": words("kwarg")},
            "tags": [words("tag"), "second"],
            "retry": True,
            "created_at": at_ms,
            "enqueued_at": at_ms,
            "meta.caller_id": words("caller"),
            f"meta.{words('context_name')}": words("context"),
            "correlation_id": words("correlation"),
            "custom": words("custom"),
            **fields,
        }

    def failed(self, **fields: Any) -> dict[str, Any]:
        """Return the payload of a job that failed twice."""
        words, at_ms = self.words, int(self.now * 1000) - 3_000
        lines = [f'File "{words("file")}", line 1, in {words("function")}', words("line")]
        return self.job(
            error_class=words("error_class"),
            error_message=words("error_message"),
            error_backtrace=compress_backtrace(lines, 8),
            failed_at=at_ms,
            retried_at=at_ms + 500,
            retry_count=1,
            **fields,
        )


def dumped(value: object) -> bytes:
    """Encode as JSON, with a lone surrogate as an escape, as in all languages."""
    return json.dumps(value).encode()


def safe(text: str) -> bytes:
    """Return a text as part of a key or a field."""
    return text.encode("utf-8", "replace")


def queues(pipeline: Any, stored: StoredData) -> None:
    """Store a paused queue of normal jobs, wrapped jobs, and malformed payloads."""
    queue = safe(stored.queue)
    pipeline.sadd("queues", queue)
    pipeline.sadd("paused", queue)
    wrapped = {
        "class": "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper",
        "wrapped": stored.words("wrapped"),
        "args": [{"job_class": stored.words("wrapped"), "arguments": [stored.words("argument")]}],
    }
    jobs = [dumped(stored.job()) for _ in range(JOBS)]
    jobs += [dumped(stored.job(**wrapped)), safe(stored.words("malformed"))]
    pipeline.lpush(b"queue:" + queue, *jobs)


def sets(pipeline: Any, stored: StoredData) -> None:
    """Store retries, scheduled and dead jobs, with their attempts."""
    for name, ahead in (("retry", 3600.0), ("schedule", 7200.0), ("dead", -60.0)):
        for number in range(JOBS):
            job = stored.job() if name == "schedule" else stored.failed()
            score = round(stored.now + ahead + number + stored.seed * 10, 3)
            pipeline.zadd(name, {dumped(job): score})
            stored.keys.setdefault(name, []).append(f"{score}|{job['jid']}")
            attempts(pipeline, stored, job["jid"])


def aside(pipeline: Any, stored: StoredData) -> None:
    """Store quarantined jobs from a set and from the queue."""
    for number, where in enumerate(("retry", f"queue:{stored.queue}", "dead")):
        name = f"{stored.seed * 1000 + number:016x}"
        head = {"where": where, "score": stored.now, "at": stored.now - 50, "how": stored.words("purge")}
        pipeline.zadd("offsider:quarantine", {name: stored.now + KEPT_SECONDS})
        pipeline.hset("offsider:quarantine:jobs", name, dumped(head) + b"\n" + dumped(stored.failed()))
        stored.quarantined = stored.jids[-1]
        stored.keys.setdefault("quarantine", []).append(name)


def attempts(pipeline: Any, stored: StoredData, jid: str) -> None:
    """Store the failed runs of a job."""
    words = stored.words
    for number in (1, 2):
        attempt = {
            "number": number,
            "at": stored.now - 30 + number,
            "host": words("host"),
            "error_class": words("error_class"),
            "error_message": words("error_message"),
            "duration": 0.25,
        }
        pipeline.lpush(f"offsider:attempts:{jid}", dumped(attempt))
        pipeline.expire(f"offsider:attempts:{jid}", KEPT_SECONDS)


def processes(pipeline: Any, stored: StoredData) -> None:
    """Store a process with running jobs, in the format of Sidekiq 8 and offsider."""
    words, identity = stored.words, safe(stored.identity)
    queue, weights = stored.queue, {stored.queue: 2, "low": 1}
    info = {
        "hostname": words("hostname"),
        "pid": 1000,
        "identity": identity.decode(),
        "tag": words("process_tag"),
        "labels": [words("label"), "reliable"],
        "queues": [queue, "low"],
        "weights": [weights],
        "capsules": {words("capsule"): {"concurrency": 5, "mode": "weighted", "weights": weights}},
        "concurrency": 5,
        "started_at": stored.now - 100,
        "version": words("version"),
        "embedded": False,
    }
    fields: Mapping[Any, Any] = {
        "info": dumped(info),
        "busy": JOBS,
        "beat": stored.now,
        "rtt_us": 1234,
        "quiet": "false",
        "rss": 51_200,
    }
    pipeline.sadd("processes", identity)
    pipeline.hset(identity, mapping=fields)
    pipeline.expire(identity, KEPT_SECONDS)
    work = identity + b":work"
    for number in range(JOBS):
        job = stored.job()
        stored.running = job["jid"]
        payload = dumped(job).decode()
        running = {"queue": queue, "payload": payload, "run_at": int(stored.now) - 5}
        tid = safe(words("tid")) if number == 0 else b"t%d" % number
        pipeline.hset(work, tid, dumped(running))
    pipeline.expire(work, KEPT_SECONDS)


def metrics(pipeline: Any, stored: StoredData) -> None:
    """Store runs of a class in the last minutes, and a deploy."""
    name = safe(stored.name)
    for ago in (120, 180, 240):
        at = datetime.fromtimestamp(stored.now - ago, UTC)
        minute = f"j|{at:%y%m%d}|{at.hour}:{at.minute:02d}"
        for key in (minute, minute[:-1]):
            pipeline.hset(key, mapping={name + b"|p": 5, name + b"|f": 2, name + b"|ms": 1500 + ago})
            pipeline.expire(key, KEPT_SECONDS)
        histogram = b"h|%s-%d-%d:%d" % (name, at.day, at.hour, at.minute)
        pipeline.set(histogram, b"".join(count.to_bytes(2, "big") for count in BITFIELD), ex=KEPT_SECONDS)
    deployed = datetime.fromtimestamp(stored.now - 180, UTC)
    pipeline.hset(f"{deployed:%Y%m%d}-marks", f"{deployed:%Y-%m-%dT%H:%M}:00Z", safe(stored.words("deploy")))


def controlled(pipeline: Any, stored: StoredData) -> None:
    """Store a control of the class."""
    control = {
        "action": "defer",
        "delay_seconds": 300,
        "keep": True,
        "since": stored.now - 100,
        "until": stored.now + KEPT_SECONDS,
        "by": stored.words("controlled_by"),
        "reason": stored.words("reason"),
    }
    pipeline.hset("offsider:controls", safe(stored.name), dumped(control))


def promises(pipeline: Any, stored: StoredData) -> None:
    """Store runs of a class that met its SLO, runs that did not, and the thread time of a shard."""
    words = stored.words
    labels = {
        "class": stored.name,
        "feature_category": words("category"),
        "shard": words("shard"),
        "urgency": "high",
    }
    at = int(stored.now)
    ten_minutes, minute = at // 600, at // 60
    slo = b"\0" * (12 * (ten_minutes % 144)) + struct.pack(">3I", 100, 2, 3)
    series(pipeline, f"slo:10m:{ten_minutes // 144}", labels, slo)
    busy = [struct.pack(">2q", (200 + number) * 1_000_000, 600_000_000) for number in range(minute % 60 + 1)]
    series(pipeline, f"shards:1m:{minute // 60}", {"shard": words("shard")}, b"".join(busy))


def series(pipeline: Any, chunk: str, labels: Mapping[str, str], cells: bytes) -> None:
    """Store counts in the steps of a chunk: ``<metric>:<step>:<number>``."""
    written = json.dumps(dict(sorted(labels.items())), separators=(",", ":")).encode()
    pipeline.zadd(f"offsider:series:{chunk.partition(':')[0]}", {written: time.time()})
    pipeline.set(f"offsider:series:{chunk}:".encode() + written, cells, ex=KEPT_SECONDS)


def errors(pipeline: Any, stored: StoredData) -> None:
    """Store a group of errors."""
    words, key = stored.words, f"offsider:errors:{stored.group}"
    fields: dict[str, object] = {
        "class": safe(stored.name),
        "error_class": safe(words("error_class")),
        "file": safe(words("file")),
        "function": safe(words("function")),
        "line": 12,
        "first_at": stored.now - 900,
        "first_release": safe(words("release")),
        "last_release": safe(words("release")),
        "message": safe(words("error_message")),
        "queue": safe(stored.queue),
        "jid": stored.jids[0],
        "attempts": 7,
        "jobs": 4,
        "deaths": 1,
        "traceback": safe(words("line")),
    }
    pipeline.zadd("offsider:errors", {stored.group: stored.now - 60})
    pipeline.hset(key, mapping=fields)
    facets = ("release", "host", "caller", "tenant", "user", "message")
    pipeline.hset(key, mapping={f"{name}:".encode() + safe(words(name)): 7 for name in facets})
    pipeline.pfadd(f"{key}:users", safe(words("user")))
    pipeline.pfcount(f"{key}:users")  # stores the count in the value, as the first page would
    pipeline.expire(key, KEPT_SECONDS)
    pipeline.expire(f"{key}:users", KEPT_SECONDS)
