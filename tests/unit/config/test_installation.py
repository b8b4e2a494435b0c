"""What exists at run time for one server of a configuration."""

import gc
import weakref

import pytest

from offsider import Client, Config, Installation
from offsider.config.default import set_default_config
from tests.threads import hammering
from tests.waiting import wait_for


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
def two() -> Config:
    config = Config()
    config.add_server("bulk", url="redis://bulk/0")
    return config


def test_a_configuration_has_one_installation_per_server(two):
    main, bulk = Installation.of(two), Installation.of(two, "bulk")
    assert (main.name, main.settings, main.config) == ("main", two.redis, two)
    assert (bulk.name, bulk.settings, bulk.config) == ("bulk", two.servers["bulk"], two)
    assert Installation.of(two) is main is bulk.for_server("main")
    assert main.for_server("bulk") is bulk is Installation.of(two, "bulk")


def test_an_installation_resolves_to_itself(two):
    bulk = Installation.of(two, "bulk")
    assert Installation.of(bulk) is bulk
    assert Installation.of(bulk, "main") is Installation.of(two)
    assert Client(bulk).installation is bulk


def test_the_default_is_the_configuration_of_the_process(config):
    previous = set_default_config(config)
    try:
        assert Installation.of() is Installation.of(config)
    finally:
        set_default_config(previous)


def test_pools_share_the_settings_of_their_server(two):
    bulk = Installation.of(two, "bulk")
    assert bulk.make_redis(4).size == 4
    assert bulk.make_redis(1).settings is bulk.settings


def test_all_users_without_a_pool_of_their_own_share_one(config):
    config.redis.client_pool_size = 7
    here = Installation.of(config)
    assert here.redis is here.redis
    assert here.redis.size == 7
    assert Installation.of(Config()).redis is not here.redis


def test_closing_covers_the_pools_of_all_servers(two, monkeypatch):
    here, closed = Installation.of(two), []
    here.close()
    for each in (here, here.for_server("bulk")):
        monkeypatch.setattr(each.redis, "close", lambda server=each.name: closed.append(server))
    here.for_server("bulk").close()
    assert closed == ["main", "bulk"]


def test_it_is_collected_with_its_configuration():
    config = Config()
    gone = weakref.ref(config)
    assert Installation.of(config).redis
    del config
    gc.collect()
    assert gone() is None


def test_concurrent_threads_get_the_same_object(config):
    for number in range(20):
        config.add_server(f"server{number}", url=f"redis://localhost:{number}")
        seen = set()

        def ask(server=f"server{number}", seen=seen) -> None:
            seen.add(Installation.of(config, server))

        with hammering(ask, ask) as errors:
            wait_for(lambda seen=seen: seen)
        assert errors == []
        assert len(seen) == 1
