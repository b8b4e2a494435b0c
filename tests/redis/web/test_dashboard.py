"""The first page."""

from __future__ import annotations

from tests.waiting import wait_for


def test_an_empty_server_is_shown(read):
    data = read("/")
    assert data["stats"]["processed"] == data["hour"]["total"] == 0
    assert data["queues"] == []
    assert data["hour"]["error_rate"] == 0
    assert data["attention"] == data["stranded"] == []
    assert data["server"]["store"] in {"redis", "valkey"}


def test_waiting_jobs_without_workers_show_a_warning(read, raw_redis, ask):
    raw_redis.sadd("queues", "low")
    raw_redis.lpush("queue:low", b'{"class":"A","args":[],"jid":"1","queue":"low","enqueued_at":1000}')
    data = read("/")
    assert data["attention"] == ["Jobs are enqueued, but no worker process is running."]
    assert data["queues"][0]["name"] == "low"
    assert data["queues"][0]["latency_seconds"] > 1e9
    assert b"no worker process is running" in ask("/").body


def test_the_history_has_the_requested_days(read, ask, raw_redis):
    assert len(read("/", "days=7")["history"]["dates"]) == 7
    data = read("/")["history"]
    assert data["dates"] == sorted(data["dates"])
    assert data["days"] == 30
    for days in ("0", "181", "9999999", "x"):
        assert ask("/", f"days={days}").status == 400


def test_a_head_request_is_cheap(ask):
    assert ask("/", method="HEAD").status == 200


def test_different_routing_rules_show_a_warning(read, ask, raw_redis):
    raw_redis.zadd("offsider:clients", {"web-1:gunicorn:abc": raw_redis.time()[0]})
    assert read("/")["attention"] == []
    raw_redis.zadd("offsider:clients", {"web-2:gunicorn:none": raw_redis.time()[0]})
    assert read("/")["attention"] == ["Processes use different routing rules. Run offsider doctor for details."]
    assert b"different routing rules" in ask("/").body


def test_stranded_jobs_show_a_warning(read, ask, raw_redis):
    raw_redis.hset("offsider:stranded", "shop.Crop", "shop.Crop is not declared")
    job = '{"class":"shop.Crop","args":[],"jid":"a","queue":"media","stranded_at":1795216780000}'
    raw_redis.zadd("schedule", {job: raw_redis.time()[0] + 60})
    (jobs,) = read("/")["stranded"]
    assert (jobs["name"], jobs["count"], jobs["since"], jobs["path"]) == (
        *("shop.Crop", 1, 1795216780.0, "/metrics/shop.Crop"),
    )
    page = ask("/").body.decode()
    assert "1 stranded job: no live worker of queue media can run shop.Crop." in page
    assert "start workers of the release that pushed them" in page


def test_jobs_in_an_unserved_queue_show_a_warning(read, ask, raw_redis):
    raw_redis.sadd("processes", "h:7:abc")
    info = '{"hostname": "h", "pid": 7, "queues": ["low"], "concurrency": 5}'
    raw_redis.hset("h:7:abc", mapping={"info": info, "busy": 0, "quiet": "false"})
    raw_redis.sadd("queues", "low", "orphan", "empty")
    raw_redis.lpush("queue:low", b'{"class":"A","args":[],"jid":"1","queue":"low"}')
    assert read("/")["attention"] == []
    raw_redis.lpush("queue:orphan", b'{"class":"A","args":[],"jid":"2","queue":"orphan"}')
    wait_for(lambda: b"queues have jobs but no live worker" in ask("/").body, what="the counters are read anew")
