"""A worker inside another program."""

from __future__ import annotations

import io
import logging
import threading

import pytest

from offsider import Config, configure_client, job
from offsider.client import Client
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisUnavailable
from offsider.embedded.folder import free_port
from offsider.jobs import registry
from offsider.runtime.service import Loop
from offsider.worker.embed import EmbeddedWorker
from tests.threads import names_of_threads
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def no_jobs_left():
    with registry.isolated():
        yield


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    return config


def test_it_runs_jobs_between_start_and_stop_and_leaves_no_state(config, raw_redis):
    ran = threading.Event()
    job(name="Runs")(ran.set)
    with EmbeddedWorker(config):
        Client(config).push({"class": "Runs", "args": []})
        assert ran.wait(10)
        wait_for(lambda: raw_redis.scard("processes"))
    assert raw_redis.scard("processes") == raw_redis.hlen("offsider:owners") == 0
    wait_for(lambda: names_of_threads() == [])


def test_the_application_s_log_records_know_their_job(config):
    stream, shop = io.StringIO(), logging.getLogger("shop")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(jid)s %(class)s", defaults={"jid": "?", "class": "?"}))
    shop.addHandler(handler)
    ran = threading.Event()

    def note() -> None:
        shop.warning("hello")
        ran.set()

    job(name="Notes")(note)
    try:
        with EmbeddedWorker(config):
            jid = Client(config).push({"class": "Notes", "args": []})
            assert ran.wait(10)
    finally:
        shop.removeHandler(handler)
    assert stream.getvalue() == f"hello {jid} Notes\n"


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


def test_signals_that_were_left_for_it_are_not_meant_for_the_program_around_it(config, raw_redis):
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


def test_a_quiet_worker_fetches_no_more_jobs(config, raw_redis):
    with EmbeddedWorker(config) as worker:
        worker.quiet()
        worker.quiet()
        Client(config).push({"class": "Waits", "args": []})
    assert raw_redis.llen("queue:default") == 1


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


def test_one_of_several_threads_gets_a_configuration(config):
    begin, done, started = threading.Barrier(4), threading.Barrier(4), []

    def start() -> None:
        worker = EmbeddedWorker(config)
        begin.wait(10)
        try:
            worker.start()
            started.append(worker)
        except ConfigurationError as error:
            started.append(str(error))
        done.wait(30)
        worker.stop()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, EmbeddedWorker) for each in started) == 1
    assert sum("another worker of this process" in str(each) for each in started) == 3
    assert not config.frozen


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


def test_a_start_that_fails_leaves_nothing_running_in_the_program(config, raw_redis):
    def fails_to_start(config):
        service = Loop("offsider-broken", lambda: None, on_error=config.handle_error)
        service.start = lambda: {}["missing"]  # type: ignore[method-assign]
        return service

    config.add_service(fails_to_start)
    with pytest.raises(KeyError, match="missing"), EmbeddedWorker(config):
        pytest.fail("it started")
    wait_for(lambda: names_of_threads() == [])
    assert raw_redis.scard("processes") == raw_redis.hlen("offsider:owners") == 0
