"""Settings from environment variables."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError


def load(tmp_path, **environ):
    return Config.load(environ=environ, cwd=tmp_path)


def test_a_variable_has_the_section_and_the_key_in_its_name_and_the_command_line_overrides_it(tmp_path):
    (tmp_path / "offsider.toml").write_text("concurrency = 1")
    environ = {"OFFSIDER_WORKER_CONCURRENCY": "9", "OFFSIDER_WORKER_QUEUES": "a,2 b"}
    config = load(tmp_path, **environ)
    assert (config.worker.concurrency, config.worker.queues, config.warnings) == (9, ("a,2", "b"), [])
    stronger = Config.load(environ=environ, cwd=tmp_path, overrides={"worker.concurrency": 3})
    assert stronger.worker.concurrency == 3


def test_a_variable_of_a_capsule_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"rename OFFSIDER_CAPSULES_X_MODE, and use"):
        load(tmp_path, OFFSIDER_CAPSULES_X_MODE="random")
    assert load(tmp_path, OFFSIDER_CAPSULES_X_SERVICE_HOST="10.0.0.1").warnings == []


def test_a_wrong_value_names_the_variable(tmp_path):
    with pytest.raises(
        ConfigurationError,
        match=r"OFFSIDER_WORKER_CONCURRENCY: worker\.concurrency expects a whole number .*, got 'many'",
    ):
        load(tmp_path, OFFSIDER_WORKER_CONCURRENCY="many")


@pytest.mark.parametrize(
    "environ, url",
    [
        ({"REDIS_URL": "redis://a"}, "redis://a"),
        ({"VALKEY_URL": "redis://b"}, "redis://b"),
        ({"REDIS_URL": "redis://a", "VALKEY_URL": "redis://b"}, "redis://a"),
        ({"REDIS_URL": "", "VALKEY_URL": "redis://b"}, "redis://b"),
        ({"REDIS_PROVIDER": "HEAP_URL", "HEAP_URL": "redis://c", "REDIS_URL": "redis://a"}, "redis://c"),
        ({"OFFSIDER_REDIS_URL": "redis://d", "REDIS_URL": "redis://a", "REDIS_PROVIDER": "X"}, "redis://d"),
        ({}, "redis://localhost:6379/0"),
    ],
)
def test_where_the_server_is(tmp_path, environ, url):
    assert load(tmp_path, **environ).redis.url == url


def test_a_wrong_database_names_the_variable_and_not_the_password(tmp_path):
    expected = r"REDIS_URL: redis\.url expects a URL .*: the database, .*, is a number"
    with pytest.raises(ConfigurationError, match=expected) as caught:
        load(tmp_path, REDIS_URL="redis://:hunter2@host:1/abc")
    assert "hunter2" not in str(caught.value)


def test_redis_provider_names_another_variable(tmp_path):
    with pytest.raises(ConfigurationError, match="must be the name of a variable"):
        load(tmp_path, REDIS_PROVIDER="redis://a")
    with pytest.raises(ConfigurationError, match="names the variable HEAP_URL, which is not set"):
        load(tmp_path, REDIS_PROVIDER="HEAP_URL")


@pytest.mark.parametrize(
    "environ, name",
    [
        ({"OFFSIDER_ENV": "staging", "APP_ENV": "production"}, "staging"),
        ({"APP_ENV": "production"}, "production"),
        ({"OFFSIDER_WORKER_ENVIRONMENT": "a", "OFFSIDER_ENV": "b"}, "a"),
        ({"APP_ENV": "", "RAILS_ENV": "test", "RACK_ENV": "production"}, "test"),
        ({"APP_ENV": "staging", "RAILS_ENV": "test"}, "staging"),
        ({"RACK_ENV": "production"}, "production"),
        ({"APP_ENV": ""}, "development"),
        ({}, "development"),
    ],
)
def test_the_name_of_the_environment(tmp_path, environ, name):
    assert load(tmp_path, **environ).worker.environment == name


def test_the_environments_of_a_file_follow_the_same_order(tmp_path):
    (tmp_path / "offsider.toml").write_text("tag = 'any'\n[environments.test]\ntag = 'of test'\n")
    assert load(tmp_path, RAILS_ENV="test", RACK_ENV="production").worker.tag == "of test"
    assert load(tmp_path, APP_ENV="production", RAILS_ENV="test").worker.tag == "any"


def test_rails_max_threads_is_the_default_of_concurrency_and_no_more(tmp_path):
    assert load(tmp_path, RAILS_MAX_THREADS="12").worker.concurrency == 12
    assert load(tmp_path, RAILS_MAX_THREADS="").worker.concurrency == 5
    assert load(tmp_path, RAILS_MAX_THREADS="12", OFFSIDER_WORKER_CONCURRENCY="3").worker.concurrency == 3
    (tmp_path / "offsider.toml").write_text("concurrency = 4")
    assert load(tmp_path, RAILS_MAX_THREADS="12").worker.concurrency == 4
    with pytest.raises(ConfigurationError, match=r"RAILS_MAX_THREADS: worker\.concurrency expects a whole number"):
        load(tmp_path, RAILS_MAX_THREADS="many")


def test_a_misspelled_variable_logs_a_warning_but_not_one_of_a_platform(tmp_path):
    config = load(
        tmp_path,
        OFFSIDER_WORKER_CONCURENCY="5",
        OFFSIDER_VALKEY_SERVER="/bin/true",
        OFFSIDER_REDIS_SERVICE_HOST_OF_A_CLUSTER="10.0.0.1",
    )
    [warning] = config.warnings
    assert "OFFSIDER_WORKER_CONCURENCY sets nothing; did you mean OFFSIDER_WORKER_CONCURRENCY?" in warning


class TestDefaultsOfJobs:
    @pytest.mark.parametrize(
        "option, given, final",
        [
            ("queue", "low", "low"),
            ("retry", "3", 3),
            ("retry", "false", False),
            ("retry", "yes", True),
            ("retry_for", "0.5", 0.5),
            ("hard_timeout", "90.5", 90.5),
            ("tags", "a b", ["a", "b"]),
            ("dead", "no", False),
            ("backtrace", "on", True),
            ("log_level", "debug", "debug"),
        ],
    )
    def test_each_option_that_fits_in_a_string_has_a_variable(self, tmp_path, option, given, final):
        config = load(tmp_path, **{f"OFFSIDER_JOBS_{option.upper()}": given})
        assert config.jobs[option] == final
        assert type(config.jobs[option]) is type(final)

    @pytest.mark.parametrize("value", ["often", "-1", "", "1.5"])
    def test_a_wrong_value_names_the_variable(self, tmp_path, value):
        with pytest.raises(ConfigurationError, match=r"OFFSIDER_JOBS_RETRY: jobs .*: retry must be True, False or"):
            load(tmp_path, OFFSIDER_JOBS_RETRY=value)
