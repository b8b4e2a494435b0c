"""A worker inside another program."""

from __future__ import annotations

import threading

import pytest

from offsider import Config, configure_client, job
from offsider.client import Client
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core import payload
from offsider.core.errors import ConfigurationError, RedisUnavailable
from offsider.embedded.folder import free_port
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def no_default_yet():
    before = set_default_config(None)
    yield
    set_default_config(before)


@pytest.mark.usefixtures("no_default_yet")
def test_without_a_configuration_it_uses_the_client_s_with_two_threads(redis_url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "offsider.toml").write_text(f'redis.url = "{redis_url}"\nworker.concurrency = 7\n')
    assert EmbeddedWorker().config.worker.concurrency == 2
    assert EmbeddedWorker().config.redis.url == redis_url
    assert EmbeddedWorker(concurrency=3).config.worker.concurrency == 3


@pytest.mark.usefixtures("no_default_yet")
def test_without_a_configuration_it_serves_the_default_of_the_process(redis_url, tmp_path, monkeypatch, tag):
    monkeypatch.chdir(tmp_path)
    ran = threading.Event()
    runs = job(name="Runs", queue="elsewhere")(ran.set)

    @configure_client
    def configure(config: Config) -> None:
        config.redis.url = redis_url
        config.redis.key_prefix = f"{tag}shop:"
        config.worker.queues = ["elsewhere"]

    for _ in range(2):
        with EmbeddedWorker():
            runs.enqueue()
            assert ran.wait(10)
            with pytest.raises(ConfigurationError, match="another worker of this process runs with this configuration"):
                EmbeddedWorker()
        ran.clear()


def test_it_decodes_payloads_with_msgspec(config, monkeypatch):
    monkeypatch.setattr(payload, "_read_first", payload._read)
    with EmbeddedWorker(config):
        assert payload._read_first is not payload._read


def test_signals_that_were_left_for_it_are_not_meant_for_the_program_around_it(config, raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.worker.controls.SIGNAL_SECONDS", 0.0)
    beats = threading.Semaphore(0)
    config.on("beat", beats.release)
    ran = threading.Event()
    job(name="Runs")(ran.set)
    with EmbeddedWorker(config):
        assert beats.acquire(timeout=10)
        (identity,) = raw_redis.smembers("processes")
        raw_redis.lpush(identity + b"-signals", "TERM")
        wait_for(lambda: raw_redis.llen(identity + b"-signals") == 0)
        Client(config).push({"class": "Runs", "args": []})
        assert ran.wait(10)


def test_it_runs_again_after_its_stop_but_not_twice_at_a_time(config):
    around, ran = [], threading.Semaphore(0)
    job(name="Runs")(ran.release)
    worker = EmbeddedWorker(config)
    worker.stop()  # never started: nothing to do
    worker.quiet()
    for number in (1, 2):
        worker.start()
        try:
            for other in (worker, EmbeddedWorker(config)):
                with pytest.raises(ConfigurationError, match=r"runs with this configuration: stop it first, or pass"):
                    other.start()
            with pytest.raises(ConfigurationError, match="it cannot change after the worker has started"):
                config.server_middleware.add(around.append)
            Client(config).push({"class": "Runs", "args": []})
            assert ran.acquire(timeout=10)
        finally:
            worker.stop()
        assert len(around) == number - 1

        # Frozen only meanwhile.
        def middleware(subject, number=number):
            around.append(number)
            yield

        config.server_middleware.add(middleware)


def test_without_a_server_it_raises_and_starts_when_there_is_one(redis_url):
    config = Config()
    config.redis.url = f"redis://127.0.0.1:{free_port()}"
    worker = EmbeddedWorker(config)
    for _ in range(2):
        with pytest.raises(RedisUnavailable, match="cannot be reached"):
            worker.start()
    config.redis.url = redis_url
    Installation.renewed(config)
    with worker:
        pass


def test_it_serves_the_queues_of_the_jobs_that_its_shard_selects(redis_url, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_jobs", {})
    path = tmp_path / "offsider.toml"
    path.write_text(
        f'redis.url = "{redis_url}"\nrouting.rules = [["tags=mail", "mails"]]\nshards.mails.select = "tags=mail"\n'
    )
    ran = threading.Event()
    sends = job(name="Sends", tags=["mail"])(ran.set)
    config = Config.load(path, environ={}, overrides={"shard": "mails"})
    with EmbeddedWorker(config) as worker:
        assert worker.config.capsules["default"].queues == ["mails"]
        sends.via(Client(config)).enqueue()
        assert ran.wait(20)
