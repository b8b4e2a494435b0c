"""What `redact` hides appears on no page, in HTML or JSON: a crawl with a marker in each place that it can reach."""

from __future__ import annotations

import json
import logging
import re
import time

import pytest

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.core.segments import pattern_of
from offsider.ext.batches import Batch, Batches, BatchSet, store as batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.results import Results, store as results
from offsider.ext.unique import Unique
from offsider.inspector import Controls
from offsider.inspector.events import EventLog
from offsider.inspector.findings import refresh
from offsider.screens import jobs
from offsider.storage import attempts, slots
from offsider.storage.attempts import LogLine, NewAttempt
from offsider.web.extension_tabs import tab_routes
from offsider.web.pages import routes
from tests.redis.errors import failed_run, note_as
from tests.redis.web.conftest import asker

MARK = "S3cr3t"
CARD = f"4111-{MARK}"


def hide_card(name, args, kwargs):
    """Hides one keyword argument, and one key of a dict."""
    hidden = [{**each, "card": "***"} if isinstance(each, dict) and "card" in each else each for each in args]
    return hidden, {**kwargs, **({"card": "***"} if "card" in kwargs else {})}


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
    failed = failed_run(now, f"declined {MARK}", "Pays", "CardDeclined", queue="mail", jid="in-dead")
    note_as(here.redis, "a1", failed)
    attempt = {"number": 1, "at": now, "host": "web-1:7", "error_class": "E", "error_message": MARK, "duration": 1}
    lines = (LogLine(now, "INFO", f"pays with {CARD}"),)
    attempts.add(here.redis, [NewAttempt("in-dead", now, encode(attempt), now, lines)], now)
    Controls(here).hold(f"Pays[{CARD}]", by="kim")
    client = Client(config)
    with Batch(description=f"cards {CARD}", tags=[CARD], config=config) as batch:
        member = client.push({"class": "Pays", "args": [{"card": CARD}]})
    dies = batches.outcomes(keys.prefix, batches.lineages(here).of(batch.bid), batches.Lives.of(config))
    here.redis.run(*dies.call("died", member, "Pays: CardDeclined"))
    client.push({"class": "Pays", "args": [{"card": CARD}], "unique_for": 60})
    PeriodicJobs(config).add("@daily", "Pays", name="nightly", args=[{"card": CARD}])
    progress = json.dumps([1, 2, MARK])
    tracked = {"class": "Pays", "state": "dead", "at": now, "error_class": "E", "error_message": MARK, "why": MARK}
    raw_redis.hset(results.job_key(keys, "tracked"), mapping=tracked | {"progress": progress})
    yield here
    here.close()


def crawl(ask, todo) -> dict[tuple[str, str], str]:
    """These pages and all pages that they link to, as HTML and as JSON."""
    found: dict[tuple[str, str], str] = {}
    while todo:
        path, _, query = todo.pop(0).partition("?")
        if (path, query) in found or len(found) > 400:
            continue
        for accept in ("text/html", "application/json"):
            answer = ask(path, query, accept=accept)
            headers = "".join(f"{name}: {value}" for name, value in answer.headers)
            status = "" if answer.status < 400 else "refused: "
            found[path, query] = found.get((path, query), status) + headers + answer.body.decode()
            todo += [value for name, value in answer.headers if name == "location"]
            if accept == "application/json" and answer.status == 200 and "/json" in headers:
                todo += [*paths(json.loads(answer.body))]
    return found


def paths(data):
    for name, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(value, str) and value.startswith("/") and (name == "path" or str(name).endswith("_path")):
            yield value
        yield from paths(value)


def test_a_hidden_argument_appears_on_no_page(config, stored, monkeypatch, caplog):
    monkeypatch.setattr(jobs, "PAGE_BUDGET_MS", 5_000)  # the machine may be busy
    ask = asker(config, redact=hide_card)
    caplog.set_level(logging.INFO)
    ask("/jobs/delete", method="POST", body=f"where=dead&text={CARD}&args={CARD}&confirmed=yes&unknown=1")  # refused
    ask("/jobs/delete", method="POST", body=f"where=schedule&text={CARD}&args={CARD}&confirmed=yes")
    assert {each.kind for each in EventLog(stored).read()} >= {"action", "control-set"}
    refresh(stored)
    assert MARK not in str(EventLog(stored).read()).replace(f"Pays[{CARD}]", "")
    assert MARK not in caplog.text
    own = routes()
    pages = [each.path for each in [*own, *tab_routes(stored, own)] if each.method == "GET"]
    todo = [re.sub("{.*?}", "Pays", path) for path in pages]
    todo += ["/jobs?where=dead", "/jobs?where=all", "/jobs/count?where=all", "/controls/Pays", "/finished/jobs/tracked"]
    todo += ["/job/tracked", "/class/Pays", "/finished/classes/Pays", "/find?q=Pays"]
    todo += [f"/batch_status/{each.bid}.json" for each in BatchSet(config).page(0, 9)]
    found = crawl(ask, todo)
    assert {"/job/retry", "/job/dead", "/job/busy"} <= {path.rpartition("/")[0] for path, _ in found}
    assert any(path.startswith("/now/findings/batch") for path, _ in found)
    shown = [path for (path, _), text in found.items() if not text.startswith("refused: ")]
    unseen = [path for path in pages if not any(map(pattern_of(path).fullmatch, shown))]
    assert unseen == [], "store something that these pages show"
    leaks = {where: text[text.index(MARK) - 200 :][:300] for where, text in found.items() if MARK in text}
    assert leaks == {}, [*leaks.items()][:30]
    assert MARK in asker(config)("/jobs", "where=dead").body.decode()
