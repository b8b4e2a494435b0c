"""All servers are asked at once, and one that is away hides no other."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.inspector.all_servers import query_all, split


def name(server: Installation) -> str:
    server.redis.call("PING")
    return server.name


def test_results_of_all_servers_have_their_names_in_configured_order(config, redis_url):
    assert query_all(Installation.of(config), name) == {"main": "main"}
    config.add_server("z", url=redis_url)
    config.add_server("a", url=redis_url)
    answers = query_all(Installation.of(config), name)
    assert list(answers.items()) == [("main", "main"), ("z", "z"), ("a", "a")]
    assert split(answers) == ({"main": "main", "z": "z", "a": "a"}, {})


def test_an_unreachable_server_is_reported_beside_the_results(config):
    config.add_server("away", url="redis://127.0.0.1:1/0", socket_timeout_seconds=0.2)
    answered, failed = split(query_all(Installation.of(config), name))
    assert answered == {"main": "main"}
    assert list(failed) == ["away"]


def test_when_all_are_away_the_first_failure_is_raised():
    with pytest.raises(RedisUnavailable, match="first"):
        split({"a": RedisUnavailable("first"), "b": RedisUnavailable("second")})
