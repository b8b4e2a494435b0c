"""Jobs as they lie in Redis, for pages to show."""

from __future__ import annotations

import json

#: Long before any test runs, and as exact in a set's score as in a text.
WHEN = 1_795_216_780.5


def jid(number: int) -> str:
    return f"{number:024x}"


def job(number: int, **fields: object) -> bytes:
    """A job of the class Shop::Send; `fields` with `_` for `.` go on top."""
    payload = {
        "class": "Shop::Send",
        "args": [number, {"email": f"user{number}@example.com"}],
        "queue": "mail",
        "jid": jid(number),
        "created_at": int(WHEN * 1000),
        "enqueued_at": int(WHEN * 1000),
    }
    return json.dumps(payload | fields).encode()


def failed(number: int, **fields: object) -> bytes:
    """A job that has failed twice."""
    error = {"error_class": "IOError", "error_message": f"reset by peer {number}", "retry_count": 1}
    return job(number, **error | {"failed_at": int(WHEN * 1000), "retried_at": int(WHEN * 1000)} | fields)


def push(raw_redis, queue: str, *raws: bytes) -> None:
    raw_redis.sadd("queues", queue)
    raw_redis.lpush(f"queue:{queue}", *raws)
