"""The default configuration of a process."""

from __future__ import annotations

import pytest

from offsider.config.application import Application, set_application
from offsider.config.config import Config
from offsider.config.default import (
    application_config,
    configure_client,
    default_config,
    set_default_config,
    set_worker_config,
)
from offsider.core.errors import ConfigurationError


@pytest.fixture(autouse=True)
def unset(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    previous = set_default_config(None)
    yield
    set_default_config(previous)


def test_it_is_read_once_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "offsider.toml").write_text("tag = 'x'")
    monkeypatch.setenv("OFFSIDER_WORKER_CONCURRENCY", "3")
    config = default_config()
    assert (config.worker.tag, config.worker.concurrency) == ("x", 3)
    assert default_config() is config


def test_it_can_be_set_and_restored():
    mine = Config()
    before = default_config()
    assert set_default_config(mine) is before
    assert default_config() is mine


def test_a_client_is_configured_at_once():
    @configure_client
    def configure(config):
        config.redis.url = "redis://elsewhere"

    assert default_config().redis.url == "redis://elsewhere"
    assert callable(configure)


def test_the_application_configures_each_new_configuration(tmp_path):
    (tmp_path / "offsider.toml").write_text("tag = 'x'")
    seen = []
    before = set_application(Application("app", {}, lambda config: seen.append(("application", config))))
    try:
        configure_client(lambda config: seen.append(("client", config)))
        mine = default_config()
        assert seen == [("application", mine), ("client", mine)]
        other = application_config()
        assert seen[2:] == [("application", other), ("client", other)]
        assert other.configured_by == mine.configured_by
        assert other is not mine
        assert other.worker.tag == "x"
        assert default_config() is mine
    finally:
        set_application(before)


def test_in_a_worker_the_client_is_left_to_the_worker():
    called = []
    set_worker_config(config := Config())
    assert default_config() is config
    assert configure_client(called.append) == called.append
    assert called == []


def test_replacing_the_default_of_a_worker_makes_a_client_configuration():
    called = []
    set_worker_config(Config())
    set_default_config(mine := Config())
    configure_client(called.append)
    assert called == [mine]


def test_errors_are_raised_at_first_use(tmp_path):
    (tmp_path / "offsider.toml").write_text("concurency = 5")
    with pytest.raises(ConfigurationError, match="concurency"):
        default_config()
