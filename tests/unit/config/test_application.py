"""The web application of a process: its settings apply to every configuration, below the environment."""

from __future__ import annotations

import threading

import pytest

from offsider import Config, ConfigurationError
from offsider.cli.application import BrokenApplication, load_application
from offsider.cli.options import WorkerOptions, configured
from offsider.config.application import Application, application, set_application
from offsider.config.default import default_config, set_default_config, set_worker_config, use_application


@pytest.fixture(autouse=True)
def no_application(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDIS_URL", raising=False)
    before = set_default_config(None)
    yield
    set_application(None)
    set_default_config(before)


def an_application(configured=None, **settings):
    return Application("SETTINGS", settings, (configured if configured is not None else []).append)


def test_its_settings_are_stronger_than_the_file_and_weaker_than_the_environment(tmp_path):
    (tmp_path / "offsider.toml").write_text("[worker]\nconcurrency = 1\ntag = 'file'\n[redis]\nurl = 'redis://file'\n")
    seen = []
    set_application(an_application(seen, worker={"concurrency": 2}, redis={"url": "redis://${HOST}"}))
    config = Config.load(environ={"REDIS_URL": "redis://environ", "HOST": "app"})
    assert (config.worker.concurrency, config.worker.tag, config.redis.url) == (2, "file", "redis://environ")
    assert Config.load(environ={"HOST": "app"}).redis.url == "redis://app"
    assert Config.load(environ={"HOST": "x"}, overrides={"concurrency": 3}).worker.concurrency == 3
    assert (seen, config.application) == ([], application())


def test_the_default_configuration_has_them_whether_it_was_loaded_before_or_not(monkeypatch):
    use_application(an_application(seen := [], worker={"tag": "app"}))
    assert default_config().worker.tag == "app"
    assert seen == [default_config()]

    set_application(None)
    set_default_config(early := Config.load())
    monkeypatch.setenv("REDIS_URL", "redis://environ")
    use_application(an_application(seen, worker={"tag": "app"}, redis={"url": "redis://app"}))
    assert default_config() is early
    assert (early.worker.tag, early.redis.url, seen[-1]) == ("app", "redis://environ", early)


def test_other_threads_wait_until_the_application_has_configured_the_default_configuration():
    set_default_config(Config.load())
    asking, waited = threading.Thread(target=default_config), []

    def configure(_config: Config) -> None:
        asking.start()
        asking.join(0.1)
        waited.append(asking.is_alive())

    use_application(Application("app", {}, configure))
    asking.join()
    assert waited == [True]


def test_a_workers_configuration_gets_only_the_code():
    config = Config()
    set_worker_config(config)
    use_application(an_application(seen := [], worker={"tag": "app"}))
    assert (config.worker.tag, seen) == ("", [config])


@pytest.mark.parametrize("loaded_before", [True, False])
def test_an_invalid_setting_names_its_origin(loaded_before):
    if loaded_before:
        default_config()
    with pytest.raises(ConfigurationError, match=r"SETTINGS.*concurency.*concurrency"):
        use_application(an_application(worker={"concurency": 2}))


def test_a_worker_with_an_application_needs_no_other_module():
    with pytest.raises(ConfigurationError, match="no application given"):
        configured(WorkerOptions())
    app = an_application(worker={"concurrency": 2})
    use_application(app)
    assert application() is app
    assert configured(WorkerOptions()).worker.concurrency == 2


def test_a_command_lets_the_application_configure_before_its_modules():
    set_application(an_application(seen := []))
    config = Config.load()
    assert load_application([], config) == []
    assert seen == [config]


def test_an_application_that_cannot_be_loaded_is_named():
    def fails(_config):
        raise KeyError("no such section")

    set_application(Application("SETTINGS", {}, fails))
    with pytest.raises(BrokenApplication, match="cannot load SETTINGS: KeyError: 'no such section'"):
        load_application([], Config.load())
