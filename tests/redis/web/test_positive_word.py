"""A change of everything says so, and a change with a field that it does not know is refused."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.web.extension_tabs import tab_routes
from offsider.web.page_request import QUESTION
from offsider.web.pages import routes
from tests.redis.errors import failed_run, note_as
from tests.redis.web.stored import WHEN, failed, job, push
from tests.snapshot import snapshot

JSON = "application/json"
EVERYTHING = [
    *(f"/jobs/{verb}?where=retry" for verb in ("retry", "kill", "quarantine", "delete")),
    *(f"/jobs/{verb}?where=dead,schedule" for verb in ("add_to_queue", "retry", "quarantine", "delete")),
    *(f"/jobs/{verb}?where=queue:mail" for verb in ("quarantine", "delete")),
    *(f"/jobs/{verb}?where=quarantine" for verb in ("restore", "delete")),
    *(f"/fleet/processes/{verb}" for verb in ("quiet", "stop")),
    "/fleet/queues/mail/clear",
    "/error/clear",
]
#: Of the placeholders in routes.
NAMES = {
    "subject": "mail",
    "name": "mail",
    "identity": "all",
    "where": "dead",
    "key": "1|a",
    "id": "a1",
    "bid": "b1",
    "jid": "j1",
    "finding": "f1",
}


@pytest.fixture(autouse=True)
def everything(config, raw_redis):
    """Something everywhere."""
    config.use(ConcurrencyLimits())
    config.use(Batches())
    here = Installation.of(config)
    for number, name in enumerate(("retry", "schedule", "dead")):
        raw_redis.zadd(name, {failed(number): WHEN})
    push(raw_redis, "mail", job(3))
    note_as(here.redis, "a1", failed_run(WHEN, jid="j1"))
    info = {"hostname": "web-1", "pid": 42, "concurrency": 4, "queues": ["low"], "identity": "web-1:42:abc"}
    raw_redis.sadd("processes", "web-1:42:abc")
    raw_redis.hset("web-1:42:abc", mapping={"info": json.dumps(info), "busy": 0, "beat": WHEN, "quiet": "false"})


def change(ask, path, body, accept=JSON):
    path, _, query = path.partition("?")
    return ask(path, query, method="POST", body=body, accept=accept)


@pytest.mark.parametrize("path", EVERYTHING)
def test_everything_is_changed_only_with_the_positive_word(ask, raw_redis, path):
    before = snapshot(raw_redis)
    for body in ("", "every=", "every=no", "confirmed=yes", "every=yes&every=yes"):
        for accept in (JSON, "text/html"):
            refused = change(ask, path, body, accept)
            assert (refused.status, "every" in refused.body.decode()) == (400, True), body
    assert snapshot(raw_redis) == before
    assert change(ask, path, "every=yes").status == 200


@pytest.mark.parametrize("path", [path for path in EVERYTHING if path.startswith("/jobs")])
def test_a_filter_without_a_value_is_no_filter(ask, raw_redis, path):
    before = snapshot(raw_redis)
    assert change(ask, path, "class=&text=+&failed=").status == 400
    assert snapshot(raw_redis) == before


def test_every_change_refuses_unknown_fields_by_name(ask, config, raw_redis):
    before = snapshot(raw_redis)
    own = routes()
    found = [route for route in (*own, *tab_routes(Installation.of(config), own)) if route.changes]
    assert len(found) > 30
    for route in found:
        path = route.path.format(**NAMES, kind="bucket")
        for query, body in (("", "nam=x&confirmed=yes"), ("nam=x", ""), ("", "every=yes&confirmed=yes&Name=x")):
            refused = ask(path, query, method="POST", body=body, accept=JSON)
            error = json.loads(refused.body)["error"]
            assert refused.status == 400, path
            assert "unknown field" in error, path
            assert all(name in error for name in route.fields) or "every" in error, path
        shown = change(ask, path, "nam=x", "text/html")
        assert (shown.status, b"unknown field nam" in shown.body) == (400, True), path
        assert QUESTION not in error
    assert snapshot(raw_redis) == before


def test_the_count_that_was_confirmed_is_a_positive_word(ask, read, raw_redis):
    raw_redis.zadd("dead", {failed(9): WHEN})
    (count,) = read("/jobs/count", "where=dead&text=peer+9")["blocks"]
    raw_redis.zadd("dead", {failed(8): WHEN})
    body = f"counted={count['buttons'][0]['fields']['counted']}"
    assert json.loads(change(ask, "/jobs/delete", body).body)["done_to"] == 1
    assert raw_redis.zcard("dead") == 2


def test_a_limit_is_not_set_to_a_number_that_was_not_sent(ask, raw_redis):
    before = snapshot(raw_redis)
    assert change(ask, "/controls/limit", "subject=Shop::Send").status == 400
    assert snapshot(raw_redis) == before
    assert change(ask, "/controls/limit", "subject=Shop::Send&limit=3").status == 200
