"""A due job follows the current routing rules, unless its push or an option chose its queue."""

from __future__ import annotations

import json

import pytest

from offsider import job
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import Rules
from offsider.inspector import RetrySet
from offsider.jobs.clients import pushing_with
from offsider.worker.scheduler import Scheduler

EARLIER = [["tags=cpu", "earlier"], ["*", "default"]]
NOW = [["tags=cpu", "heavy"], ["tags=far", "heavy", "bulk"], ["*", "other"]]
DUE = 1.0


@pytest.fixture
def resize(declared):
    @job(name=("shop.resize", "resize"), tags=["cpu"])
    def resize(path: str) -> None: ...

    return resize


@pytest.fixture
def config(worker_config, other_url):
    worker_config.add_server("bulk", url=other_url)
    return worker_config


def promote(config: Config, rules: list[list[str]], raw_redis) -> str:
    """Make the stored job due, and return the queue to which a scheduler with these rules moves it."""
    config.routing.rules = Rules.read(rules)
    for key in ("schedule", "retry"):
        for member in raw_redis.zrange(key, 0, -1):
            raw_redis.zadd(key, {member: DUE})
    redis = Installation.of(config).make_redis(2)
    scheduler = Scheduler(config, redis, Client(config, redis))
    scheduler.tick()
    redis.close()
    (queue,) = raw_redis.smembers("queues")
    (raw,) = raw_redis.lrange(f"queue:{queue.decode()}", 0, -1)
    assert json.loads(raw)["queue"] == queue.decode()
    return queue.decode()


def schedule(config: Config, pushed, rules=(), **options) -> None:
    config.routing.rules = Rules.read(rules)
    Client(config).push({"class": pushed, "args": ["a.png"], "at": 4e9, **options})


@pytest.mark.parametrize("rules, queue", [((EARLIER, NOW), "heavy"), (((), NOW), "heavy"), ((NOW, ()), "default")])
def test_a_due_job_follows_the_rules_of_today(config, resize, raw_redis, rules, queue):
    schedule(config, resize, rules[0])
    assert promote(config, rules[1], raw_redis) == queue


@pytest.mark.parametrize("rules", [(), EARLIER])
@pytest.mark.parametrize("queue", ["default", "earlier", "low"])
def test_a_queue_that_the_push_named_stays(config, resize, raw_redis, rules, queue):
    schedule(config, resize, rules, queue=queue)
    assert promote(config, NOW, raw_redis) == queue


def test_a_queue_that_using_named_stays(config, resize, raw_redis):
    config.routing.rules = Rules.read(EARLIER)
    with pushing_with(Client(config)):
        resize.using(queue="default").enqueue_in(1e6, "a.png")
    assert promote(config, NOW, raw_redis) == "default"


@pytest.mark.parametrize("by", ["resolver", "middleware"])
def test_a_queue_that_the_application_chose_at_the_push_stays(config, resize, raw_redis, by):
    if by == "resolver":
        config.queue_resolver = lambda _: "default"
    else:

        @config.client_middleware
        def choose(push):
            if push.reason == "push":
                push.payload["queue"] = "default"
            yield

    schedule(config, resize, EARLIER)
    assert promote(config, NOW, raw_redis) == "default"


def ruby(queue: str, **more: object) -> bytes:
    payload = {"class": "resize", "args": ["a.png"], "jid": "1" * 24, "queue": queue, "retry": True, **more}
    return json.dumps(payload).encode()


@pytest.mark.parametrize(
    "raw, queue",
    [
        (ruby("default"), "heavy"),
        (ruby("low"), "low"),
        (ruby("default", retry_count=0, retry_queue="default"), "default"),
        (ruby("earlier", retry_count=0, retry_queue="later", routed=True), "heavy"),
        (ruby("default", **{"class": "HardJob"}), "default"),
    ],
)
def test_jobs_of_ruby_and_jobs_with_a_retry_queue(config, resize, raw_redis, raw, queue):
    raw_redis.zadd("retry", {raw: DUE})
    assert promote(config, NOW, raw_redis) == queue


def test_a_job_whose_rule_names_another_server_stays(config, resize, raw_redis):
    @job(name="shop.far", tags=["far"])
    def far(path: str) -> None: ...

    schedule(config, far, ())
    assert promote(config, NOW, raw_redis) == "default"


def test_a_retry_by_an_operator_follows_the_rules_too(config, resize, raw_redis):
    raw_redis.zadd("retry", {ruby("default", retry_count=1): DUE})
    config.routing.rules = Rules.read(NOW)
    assert RetrySet(config).retry_all() == 1
    assert raw_redis.llen("queue:heavy") == 1


def test_a_push_to_the_queue_of_its_class_has_the_keys_of_ruby_only(config, resize, raw_redis):
    Client(config).push({"class": resize, "args": ["a.png"]})
    assert "routed" not in json.loads(raw_redis.lindex("queue:default", 0))
