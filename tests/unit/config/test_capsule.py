"""Capsules: modes, draws, discovery, copies of the chains."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError


def capsule(*queues, mode=None):
    return Config().capsule("default", queues=queues, mode=mode)


def firsts(made, draws=10_000):
    random = Random(7)
    return Counter(made.fetch_order(random)[0] for _ in range(draws))


@pytest.mark.parametrize(
    "queues, mode",
    [
        (["a", "b"], "strict"),
        (["a,1", "b,1"], "random"),
        (["a,2", "b,2"], "weighted"),
        (["a,2", "b"], "weighted"),
        ([], "strict"),
        (["a,1"], "random"),
    ],
)
def test_the_mode_follows_from_the_weights(queues, mode):
    assert capsule(*queues).mode == mode


def test_strict_queues_keep_the_given_order():
    assert capsule("c", "a", "b").fetch_order(Random()) == ["c", "a", "b"]


def test_weights_10_5_3_are_respected_over_ten_thousand_draws():
    counts = firsts(capsule("a,10", "b,5", "c,3"))
    for name, weight in (("a", 10), ("b", 5), ("c", 3)):
        assert counts[name] / 10_000 == pytest.approx(weight / 18, abs=0.015)


def test_random_draws_are_even_and_contain_every_queue_once():
    made = capsule("a,1", "b,1", "c,1")
    assert sorted(made.fetch_order(Random(1))) == ["a", "b", "c"]
    assert all(count / 10_000 == pytest.approx(1 / 3, abs=0.02) for count in firsts(made).values())


def test_a_mode_can_be_demanded_against_the_weights():
    assert capsule("a,10", "b,1", mode="strict").fetch_order(Random()) == ["a", "b"]
    assert firsts(capsule("a,1000", "b,1", mode="random"))["b"] == pytest.approx(5_000, abs=300)
    assert firsts(capsule("a", "b", mode="weighted"))["b"] == pytest.approx(5_000, abs=300)


def test_a_queue_without_weight_is_drawn_with_weight_1_and_shown_with_weight_0():
    made = capsule("a,3", "b")
    assert firsts(made)["b"] == pytest.approx(2_500, abs=300)
    assert made.weights() == {"a": 3, "b": 0}


def test_no_queue_means_default():
    assert capsule().queues == ["default"]
    assert not capsule().all_queues


def test_a_star_means_discovered_queues():
    made = capsule("high", "*", "low")
    assert made.all_queues
    assert made.queues == ["high", "low"]
    made.discover(["b", "low", "a", "high"])
    assert made.queues == ["high", "a", "b", "low"]
    assert made.fetch_order(Random()) == ["high", "a", "b", "low"]
    made.discover(["c"])
    assert made.queues == ["high", "c", "low"]


def test_discovered_queues_get_the_weight_of_the_star():
    made = capsule("high,6", "*,2")
    made.discover(["a", "b"])
    assert made.weights() == {"high": 6, "a": 2, "b": 2}


def test_without_a_star_nothing_is_discovered():
    made = capsule("a")
    made.discover(["b"])
    assert made.queues == ["a"]


def test_discovery_works_after_the_freeze():
    config = Config()
    made = config.capsule("default", queues=["*"])
    config.freeze()
    made.discover(["x"])
    assert made.fetch_order(Random()) == ["x"]


def test_settings_can_be_assigned_until_the_freeze():
    config = Config()
    made = config.capsules["default"]
    made.settings.concurrency = 7
    made.settings.queues = ["x"]
    assert (config.worker.concurrency, made.queues) == (7, ["x"])
    assert "7 threads, queues x" in repr(made)
    config.freeze()
    with pytest.raises(ConfigurationError, match="frozen"):
        made.settings.concurrency = 8


def test_chains_are_copies_made_when_first_touched():
    def common(subject):
        yield

    def own(subject):
        yield

    config = Config()
    config.server_middleware.add(common)
    config.client_middleware.add(common)
    made = config.capsule("images", concurrency=1)
    made.server_middleware.add(own)
    assert list(made.server_middleware) == [common, own]
    assert list(config.server_middleware) == [common]
    assert list(made.client_middleware) == [common]
    config.freeze()
    with pytest.raises(ConfigurationError, match="capsule images: server_middleware is frozen"):
        made.server_middleware.clear()


def test_its_pool_has_connections_to_spare():
    assert Config().capsule("default", concurrency=4).connections == 7


@pytest.mark.parametrize("name", ["", "a:b", "a b"])
def test_a_name_that_would_blur_keys_is_refused(name):
    with pytest.raises(ConfigurationError, match="capsule name"):
        Config().capsule(name)
