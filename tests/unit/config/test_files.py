"""Configuration files: which one is read, which keys it may have, and the error messages."""

from __future__ import annotations

from textwrap import dedent

import pytest

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError


@pytest.fixture
def load(tmp_path):
    def load(text=None, name="offsider.toml", *, path=None, overrides=None, beside=None, **environ):
        if text is not None:
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text))
        return Config.load(path, environ=environ, cwd=tmp_path, overrides=overrides, beside=beside)

    return load


def test_sections_and_bare_keys(load):
    config = load("""
        wire_version = 7
        timeout = 8

        [redis]
        url = "redis://host/3"
        [worker]
        concurrency = 3
        queues = [["critical", 10], "default,5", "low"]
        tag = "blue"
        [client]
        strict_args = "warn"
        [log]
        format = "json"
        level = "WARN"
        job_log = false
        [jobs]
        retry = 5
        [capsules.images]
        concurrency = 1
        queues = ["images"]
    """)
    assert (config.redis.url, config.redis.wire_version) == ("redis://host/3", 7)
    assert (config.worker.concurrency, config.worker.timeout_seconds) == (3, 8.0)
    assert config.worker.queues == ("critical,10", "default,5", "low")
    assert (config.client.strict_args, config.log.format, config.log.level) == ("warn", "json", "warning")
    assert config.log.job_log is False
    assert config.jobs["retry"] == 5
    assert [capsule.name for capsule in config.capsules.values()] == ["default", "images"]
    assert (config.capsules["images"].concurrency, config.capsules["images"].queues) == (1, ["images"])


def test_the_section_of_the_environment_overrides_the_rest(load):
    text = """
        [environments.production]
        concurrency = 20
        [environments.production.log]
        format = "json"
        [environments.production.capsules.images]
        concurrency = 2
        [worker]
        concurrency = 3
    """
    assert load(text).worker.concurrency == 3
    config = load(text, APP_ENV="production")
    assert (config.worker.concurrency, config.log.format) == (20, "json")
    assert config.capsules["images"].concurrency == 2
    assert load(text, overrides={"environment": "production"}).worker.concurrency == 20


def test_a_file_may_name_the_environment(load):
    text = 'environment = "production"\n[environments.production]\nconcurrency = 20'
    assert load(text).worker.concurrency == 20
    assert load(text, OFFSIDER_ENV="test").worker.concurrency == 5


def test_the_first_file_found_is_used(load, tmp_path):
    assert load().file is None
    load("concurrency = 4", "config/sidekiq.yml".replace("yml", "unread"))
    assert load("[tool.other]", "pyproject.toml").file is None
    assert load("[tool.offsider]\nconcurrency = 2", "pyproject.toml").worker.concurrency == 2
    assert load("concurrency = 3").worker.concurrency == 3
    beside = tmp_path / "app"
    beside.mkdir()
    (beside / "offsider.toml").write_text("concurrency = 4")
    assert load(beside=beside).worker.concurrency == 3
    (tmp_path / "offsider.toml").unlink()
    (tmp_path / "pyproject.toml").unlink()
    assert load(beside=beside).worker.concurrency == 4


def test_a_program_pushes_from_a_folder_that_a_deploy_has_removed(tmp_path, monkeypatch):
    (tmp_path / "release").mkdir()
    monkeypatch.chdir(tmp_path / "release")
    (tmp_path / "release").rmdir()
    assert Config.load(environ={"REDIS_URL": "redis://elsewhere/1"}).redis.url == "redis://elsewhere/1"
    with pytest.raises(ConfigurationError, match=r"offsider\.toml"):
        Config.load("offsider.toml", environ={})


def test_a_named_file_is_read_and_no_other(load, tmp_path):
    load("concurrency = 4")
    other = tmp_path / "other.toml"
    other.write_text("concurrency = 6")
    assert load(path=other).worker.concurrency == 6


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("gone.toml", None, "configuration file not found"),
        ("settings.ini", "", "ends in .toml, .yml or .yaml"),
        ("pyproject.toml", "[tool.other]", r"no table \[tool\.offsider\]"),
        ("bad.toml", "concurrency = ", "not valid TOML"),
        ("latin.toml", b"# \xe9", "cannot be read"),
    ],
)
def test_a_named_file_that_cannot_serve(load, tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=message):
        load(path=tmp_path / name)


@pytest.mark.parametrize(
    "text, message",
    [
        ("concurency = 5", r"no setting concurency \(did you mean 'concurrency'\?\)"),
        ("[worker]\nconcurency = 5", r"no setting worker\.concurency \(did you mean 'worker\.concurrency'\?\)"),
        ("[worker]\nurl = 'x'", r"no setting worker\.url \(did you mean 'redis\.url'\?\)"),
        ("[wroker]\nconcurrency = 5", r"no setting wroker \(did you mean 'worker'\?\)"),
        ("worker = 5", "worker expects a table of settings, got 5"),
        ("concurrency = 'many'", "offsider.toml: worker.concurrency expects a whole number from 1 to 1000, got 'many'"),
        ("queues = ['a', 'a']", "the queue 'a' is listed twice"),
        ("[capsules.x]\nconcurency = 1", r"no setting capsules\.x\.concurency \(did you mean"),
        ("[capsules]\nx = 5", r"capsules\.x expects a table"),
        ("[jobs]\nretry = -1", "offsider.toml: jobs .default options.: retry must be"),
        ("environments = 5", "environments expects a table"),
        ("[environments.production]\nconcurency = 5", "no setting concurency"),
        ("[environments.production]\nconcurrency = 'x'\n[environments]\ntest = 5", "expects a table"),
    ],
)
def test_errors_name_the_wrong_value(load, text, message):
    with pytest.raises(ConfigurationError, match=message):
        load(text)


def test_variables_are_filled_in(load):
    config = load(
        """
        tag = "${TAG}-${TAG}"
        concurrency = "${THREADS:-7}"
        queues = ["${QUEUE:-low},2", "high"]
        username = "$${TAG}"
        timeout = "${EMPTY:-3}"
        key_prefix = "${EMPTY}"
        """,
        TAG="blue",
        EMPTY="",
    )
    assert (config.worker.tag, config.worker.concurrency) == ("blue-blue", 7)
    assert config.worker.queues == ("low,2", "high")
    assert (config.redis.username, config.worker.timeout_seconds, config.redis.key_prefix) == ("${TAG}", 3.0, "")


def test_variables_are_filled_in_inside_of_the_table_of_a_periodic_job(load):
    config = load(
        '[periodic]\nping = { every = "${EVERY}", job = "app.${JOB}", kwargs = { to = "${JOB}" } }',
        EVERY="5",
        JOB="ping",
    )
    assert config.periodic["ping"] == {"every": "5", "job": "app.ping", "kwargs": {"to": "ping"}}


def test_an_unset_variable_is_named(load):
    with pytest.raises(ConfigurationError, match=r"offsider\.toml: the environment variable TAG is not set"):
        load('tag = "${TAG}"')
    with pytest.raises(ConfigurationError, match="expected in"):
        load('tag = "${TAG"')


def test_variables_of_other_environments_need_not_be_set(load):
    text = '[environments.production]\ntag = "${TAG}"'
    assert load(text).worker.tag == ""
    with pytest.raises(ConfigurationError, match=r"\[environments\.production\]: the environment variable TAG"):
        load(text, APP_ENV="production")


def test_a_variable_may_hold_a_number_or_a_flag_in_job_defaults(load):
    text = """
        [jobs]
        retry = "${N}"
        backtrace = "${LINES:-20}"
        dead = "${DEAD}"
        queue = "${QUEUE}"
    """
    jobs = load(text, N="3", DEAD="no", QUEUE="low").jobs
    assert dict(jobs) == {"retry": 3, "backtrace": 20, "dead": False, "queue": "low"}
    assert type(jobs["queue"]) is str
    with pytest.raises(
        ConfigurationError, match=r"offsider\.toml: jobs .*: retry must be True, False or a whole number"
    ):
        load(text, N="often", DEAD="no", QUEUE="low")


def test_an_erb_template_on_its_own_is_refused(load, tmp_path):
    template = tmp_path / "config" / "sidekiq.yml.erb"
    template.parent.mkdir()
    template.write_text(":concurrency: 5")
    with pytest.raises(ConfigurationError, match=r"sidekiq\.yml\.erb: offsider does not run ERB .*write it as config"):
        load()
    assert load("concurrency = 3").worker.concurrency == 3


def test_periodic_jobs_are_kept_for_their_extension(load, caplog):
    config = load(
        """
        [periodic.nightly]
        cron = "0 3 * * *"
        job = "shop.clean_up"
        args = [1, "${NAME}"]
        [periodic."a b"]
        queue = "${NAME}"
        [environments.staging.periodic.nightly]
        enabled = false
        """,
        NAME="x",
        OFFSIDER_ENV="staging",
    )
    nightly = {"cron": "0 3 * * *", "job": "shop.clean_up", "args": [1, "x"], "enabled": False}
    assert config.periodic == {"nightly": nightly, "a b": {"queue": "x"}}
    assert type(config.periodic["nightly"]["args"][1]) is type(config.periodic["a b"]["queue"]) is str
    config.freeze()
    assert "config.use(Periodic()) is missing" in caplog.text
    with pytest.raises(ConfigurationError, match=r"periodic\.nightly expects a table of settings, got 3"):
        load("[periodic]\nnightly = 3")
