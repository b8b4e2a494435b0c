"""What `redact` hides appears on no page, in HTML or JSON: a crawl with a marker in each place that it can reach."""

from __future__ import annotations

import json
import time

import pytest

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.ext.batches import Batch, Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.periodic import Periodic
from offsider.ext.results import Results, store as results
from offsider.ext.unique import Unique
from offsider.storage import attempts, error_groups, slots
from tests.redis.web.conftest import asker

MARK = "S3cr3t"
CARD = f"4111-{MARK}"


def by_name(name, args, kwargs):
    return ["***"] * len(args), dict.fromkeys(kwargs, "***")


def one_field(name, args, kwargs):
    """Hides one keyword argument, and one key of a dict."""
    hidden = [{**each, "card": "***"} if isinstance(each, dict) and "card" in each else each for each in args]
    return hidden, {**kwargs, **({"card": "***"} if "card" in kwargs else {})}


def in_place(name, args, kwargs):
    """Changes the arguments that it gets, and returns them."""
    for each in (*args, kwargs):
        if isinstance(each, dict):
            each.update(dict.fromkeys(each, "***"))
    return args, kwargs


def payload(jid: str, **more) -> bytes:
    job = {
        "class": "Pays", "args": [1, {"card": CARD}], "kwargs": {"card": CARD}, "jid": jid, "queue": "mail",
        "created_at": time.time(), "enqueued_at": time.time(), "tags": ["vip", f"card-{CARD}"],
        "meta.card": CARD, "meta.caller_id": "POST /pay", "correlation_id": f"c-{CARD}",
        "cattr": {"card": CARD}, "unique_args": [1, {"card": CARD}], "note": {CARD: [CARD]},
        "error_class": "CardDeclined", "error_message": f"declined: {CARD[2:]}", "failed_at": time.time(),
        "error_backtrace": ["/srv/pay.py:1:in `pay'", f"raise CardDeclined({CARD!r})"], "retry_count": 0,
    }  # fmt: skip
    return encode(job | more)


@pytest.fixture
def stored(config, raw_redis):
    for extension in (Batches(), Results(), Unique(), ConcurrencyLimits(), Periodic()):
        config.use(extension)
    here = Installation.of(config)
    keys, now = here.redis.keys, time.time()
    raw_redis.sadd(keys.queues, "mail")
    raw_redis.lpush(keys.queue("mail"), payload("queued"))
    for name in ("retry", "dead", "schedule"):
        raw_redis.zadd(getattr(keys, name), {payload(f"in-{name}"): now + 900})
    raw_redis.zadd(keys.dead, {b"no job " + CARD.encode(): now})
    identity = "web-1:7:0123456789ab"
    raw_redis.sadd(keys.processes, identity)
    info = {"hostname": "web-1", "pid": 7, "queues": ["mail"], "concurrency": 5, "started_at": now}
    raw_redis.hset(keys.process(identity), mapping={"info": json.dumps(info), "busy": 1, "beat": now, "quiet": "false"})
    work = {"queue": "mail", "payload": payload("running").decode(), "run_at": int(now)}
    raw_redis.hset(keys.work(identity), "tid", json.dumps(work))
    slots.declare(here.redis, {"Pays": (1, slots.ANY_RATE)}, now)
    held = keys.held(f"Pays[{CARD}]")
    raw_redis.sadd(keys.places, held)
    raw_redis.lpush(held, payload("held"))
    group = {"class": "Pays", "error_class": "CardDeclined", "message": f"declined {MARK}", "queue": "mail"}
    error_groups.note(here.redis, [error_groups.Noted("a1", 1, now, json.dumps(group), "in-dead")])
    attempt = {"number": 1, "at": now, "host": "web-1:7", "error_class": "E", "error_message": MARK, "duration": 1}
    attempts.add(here.redis, [("in-dead", encode(attempt), now)], now)
    client = Client(config)
    with Batch(description=f"cards {CARD}", tags=[CARD], config=config):
        client.push({"class": "Pays", "args": [{"card": CARD}]})
    progress = json.dumps([1, 2, MARK])
    tracked = {"class": "Pays", "state": "dead", "at": now, "error_class": "E", "error_message": MARK, "why": MARK}
    raw_redis.hset(results.job_key(keys, "tracked"), mapping=tracked | {"progress": progress})
    yield here
    here.close()


def crawl(ask) -> dict[tuple[str, str], str]:
    """All pages that the pages link to, as HTML and as JSON."""
    found: dict[tuple[str, str], str] = {}
    todo = ["/", "/search", "/errors", "/retries", "/dead", "/scheduled", "/queues", "/busy", "/quarantine", "/metrics"]
    todo += [
        "/controls",
        "/controls/Pays",
        "/batches",
        "/finished",
        "/finished/jobs/tracked",
        "/locks",
        "/periodic",
        "/servers",
        "/stats",
    ]
    while todo:
        path, _, query = todo.pop().partition("?")
        if (path, query) in found or len(found) > 300:
            continue
        for accept in ("text/html", "application/json"):
            answer = ask(path, query, accept=accept)
            found[path, query] = found.get((path, query), "") + answer.body.decode()
            if accept == "application/json" and answer.status == 200:
                todo += [*paths(json.loads(answer.body))]
    return found


def paths(data):
    for name, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(value, str) and value.startswith("/") and (name == "path" or str(name).endswith("_path")):
            yield value
        yield from paths(value)


@pytest.mark.parametrize("redact", [by_name, one_field, in_place])
def test_a_hidden_argument_appears_on_no_page(config, stored, redact):
    ask = asker(config, redact=redact)
    found = crawl(ask)
    found["search", ""] = ask("/search", f"text={CARD[:4]}", accept="application/json").body.decode()
    assert {"/job/retry", "/job/dead", "/job/busy"} <= {path.rpartition("/")[0] for path, _ in found}
    leaks = {where: text[text.index(MARK) - 200 :][:300] for where, text in found.items() if MARK in text}
    assert leaks == {}, [*leaks.items()][:3]
    assert any(MARK in text for text in crawl(asker(config)).values())
