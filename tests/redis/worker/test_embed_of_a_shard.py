"""A worker inside another program may serve a shard as any other."""

from __future__ import annotations

import threading

import pytest

from offsider import Config, job
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker


@pytest.fixture(autouse=True)
def no_jobs(monkeypatch):
    monkeypatch.setattr(registry, "_jobs", {})


@pytest.fixture
def load(redis_url, tmp_path):
    path = tmp_path / "offsider.toml"
    path.write_text(
        f'redis.url = "{redis_url}"\nrouting.rules = [["tags=mail", "mails"]]\nshards.mails.select = "tags=mail"\n'
    )
    return lambda: Config.load(path, environ={}, overrides={"shard": "mails"})


def test_it_serves_the_queues_of_the_jobs_that_the_shard_selects(load):
    ran = threading.Event()
    sends = job(name="Sends", tags=["mail"])(ran.set)
    config = load()
    with EmbeddedWorker(config) as worker:
        assert worker.config.capsules["default"].queues == ["mails"]
        from offsider.client import Client

        sends.via(Client(config)).enqueue()
        assert ran.wait(20)


def test_other_jobs_of_its_queues_are_logged(load, caplog):
    job(name="Sends", tags=["mail"])(print)
    job(name="Beside", queue="mails")(print)
    with EmbeddedWorker(load()):
        assert "serves the queue mails with all its jobs, including Beside" in caplog.text


def test_it_does_not_start_when_they_are_none(load):
    with pytest.raises(ConfigurationError, match="the shard mails"):
        EmbeddedWorker(load()).start()
