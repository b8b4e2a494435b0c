"""What all checks judge is read once."""

from __future__ import annotations

from offsider.config.installation import Installation
from offsider.inspector.doctor.facts import gather
from tests.redis.inspector.examined import OURS, RUBYS, push, register


def test_all_facts_are_collected(config, raw_redis):
    register(raw_redis, knows=["A"])
    register(raw_redis, RUBYS, queues=["*"])
    register(raw_redis, "web-3:1:aa", quiet="true")
    push(raw_redis, "A", "A")
    raw_redis.sadd("queues", "odd")
    raw_redis.set("queue:odd", "text")
    raw_redis.sadd("paused", "odd")
    redis = Installation.of(config).redis
    facts = gather(Installation.of(config), redis, 10.0)
    assert facts.now == 10.0
    assert facts.ours == {OURS}
    assert facts.queues == {"default": 2, "odd": None}
    assert facts.paused == {"odd"}
    assert facts.known == {OURS: {"A": "5ca1ab1e"}}
    assert [process.identity for process in facts.serving("default")] == [OURS, RUBYS]
    assert [process.identity for process in facts.serving("mail")] == [RUBYS]
