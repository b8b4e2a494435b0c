"""The default configuration of a process."""

from __future__ import annotations

import logging
import sys

import pytest

from offsider.config.application import Application, set_application
from offsider.config.config import Config
from offsider.config.default import (
    application_config,
    configure_as_default,
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


def test_each_function_configures_a_configuration_once():
    called = []
    configure_client(called.append)
    other = Config()
    for _ in range(2):
        configure_as_default(other)
    assert called == [default_config(), other]


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


def test_a_module_that_the_application_imports_may_configure_the_process():
    called, wrong = [], [True]

    def imports(config):
        if wrong:
            raise ConfigurationError("once")
        configure_client(called.append)

    before = set_application(Application("app", {}, imports))
    try:
        with pytest.raises(ConfigurationError, match="once"):
            default_config()
        wrong.clear()
        assert called == [default_config()]
    finally:
        set_application(before)


def test_a_worker_is_configured_too_by_functions_before_and_after_its_start():
    called = []
    configure_client(lambda config: called.append(("before", config)))
    earlier = default_config()
    set_worker_config(config := Config())
    assert default_config() is config
    configure_client(lambda config: called.append(("after", config)))
    assert called == [("before", earlier), ("before", config), ("after", config)]


def test_a_function_that_comes_too_late_for_a_worker_is_reported(capfd):
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger("offsider").addHandler(handler)
    try:
        set_worker_config(config := Config())
        config.freeze()

        @configure_client
        def set_up(config):
            raise AssertionError

    finally:
        logging.getLogger("offsider").removeHandler(handler)
    assert "set_up(config) is not called, because its module was imported after the worker" in capfd.readouterr().err


def test_replacing_the_default_of_a_worker_makes_a_client_configuration():
    called = []
    set_worker_config(Config())
    set_default_config(mine := Config())
    configure_client(called.append)
    assert called == [mine]
