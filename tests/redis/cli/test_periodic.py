"""``offsider periodic``: list, check and run."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from offsider import Config
from offsider.cli.main import main
from offsider.config.installation import Installation
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import HistoryLine, PeriodicStore
from offsider.jobs import registry
from tests.redis.ext.periodic.live_processes import publish

APP = """
from offsider import Config, job
from offsider.ext.periodic import Periodic

@job(name="app.clean", queue="slow")
def clean(days: int) -> None: ...

def configure(config: Config) -> None:
    periodic = Periodic(tz="Europe/Berlin")
    periodic.register("30 2 * * *", clean, args=[3], name="nightly")
    config.use(periodic)
"""


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "periodic_app.py").write_text(APP)
    with registry.isolated():
        yield
    sys.modules.pop("periodic_app", None)


@pytest.fixture
def store(redis_url):
    config = Config()
    config.redis.url = redis_url
    store = PeriodicStore(Installation.of(config).redis)
    publish(Installation.of(config).redis, make("hourly", "@hourly", "A", options={"queue": "low"}, description="x"))
    yield store
    Installation.of(config).close()


def call(*words: str):
    return CliRunner().invoke(main, ["periodic", *words])


def test_the_list_has_those_of_workers_and_of_the_application(store):
    result = call("list", "-r", "periodic_app")
    assert result.exit_code == 0, result.output
    head, hourly, nightly = result.output.splitlines()
    assert head.split() == ["NAME", "CRON", "ZONE", "JOB", "NEXT"]
    assert hourly.split()[:4] == ["hourly", "@hourly", "UTC", "A"]
    assert nightly.endswith("no worker")
    assert "02:30:00 +0" in nightly
    assert len(call("list").output.splitlines()) == 2


def test_without_a_word_they_are_listed(store):
    assert (call().exit_code, call().output) == (0, call("list").output)


def test_the_list_for_programs(store):
    store.pause("hourly")
    (found,) = json.loads(call("list", "--json").output)
    assert (found["name"], found["paused"], found["queue"], len(found["next"])) == ("hourly", True, "low", 5)


def test_one_is_shown_with_its_words_and_history(store):
    store.note("hourly", HistoryLine("skipped", 1e9, 1e9, count=4, by="me"))
    store.pause("hourly")
    output = call("show", "hourly").output
    assert "Every hour" in output or "At 0 minutes" in output or "@hourly UTC:" in output
    assert "paused" in output
    assert "2001-09-09 01:46:40 +0000  skipped 4" in output
    shown = json.loads(call("show", "hourly", "--json").output)
    assert shown["history"][0]["count"] == 4
    publish(store._redis, make("hourly", "@daily", "A"), since=2.0)
    assert "processes differ" in call("show", "hourly").output


def test_an_unknown_name_ends_with_an_error(store):
    for words in (["show", "hourl"], ["pause", "hourl"], ["run", "hourl"]):
        result = call(*words)
        assert result.exit_code == 1
        assert "unknown periodic job hourl (did you mean 'hourly'?)" in result.output


def test_running_pausing_resuming_and_removing(store, raw_redis):
    assert call("run", "hourly").output.startswith("hourly: pushed ")
    assert raw_redis.llen("queue:low") == 1
    assert call("pause", "hourly").output == "hourly: paused\n"
    assert call("pause", "hourly").output == "hourly: already paused\n"
    assert call("resume", "hourly").output == "hourly: resumed\n"
    assert call("resume", "hourly").output == "hourly: was not paused\n"
    assert "is registered in code" in call("remove", "hourly").output
    store.add(make("added", "@daily", "A", source="redis"))
    assert call("remove", "added").output == "added: removed\n"


def test_run_works_without_a_running_application(raw_redis):
    assert call("run", "nightly", "-r", "periodic_app").exit_code == 0
    assert json.loads(raw_redis.lindex("queue:slow", 0))["args"] == [3]


def test_a_run_stopped_by_middleware_is_reported(tmp_path, raw_redis):
    stop = "    config.client_middleware.add(lambda push: (yield) if False else None)\n"
    (tmp_path / "periodic_app.py").write_text(APP + stop)
    assert "canceled the push" in call("run", "nightly", "-r", "periodic_app").output


def test_the_check_needs_no_server(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    result = call("check", "-r", "periodic_app")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("nightly: 30 2 * * * Europe/Berlin, next ")
    assert result.output.endswith("1 periodic job, 0 wrong\n")
    assert call("list").exit_code == 1


def test_the_check_finds_invalid_periodic_jobs(tmp_path):
    (tmp_path / "offsider.toml").write_text(
        '[periodic.a]\ncron = "@daily"\njob = "app.cleen"\n[periodic.b]\ncron = "@daily"\njob = "app.clean"\n'
    )
    result = call("check", "-r", "periodic_app")
    assert result.exit_code == 1
    assert "a: job app.cleen is not declared here (did you mean 'app.clean'?)" in result.output
    assert "b: app.clean" in result.output
    assert result.output.endswith("3 periodic jobs, 2 wrong\n")
    assert "1 wrong" in call("check", "-r", "periodic_app", "--foreign").output


def test_the_check_names_an_invalid_expression(tmp_path):
    (tmp_path / "offsider.toml").write_text('[periodic.a]\ncron = "61 * * * *"\njob = "A"\n')
    result = call("check")
    assert result.exit_code == 1
    assert "periodic job 'a': cron: '61 * * * *' is invalid: Bad minute" in result.output


def test_a_job_that_is_on_two_servers_is_acted_on_on_both(store, other_url, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{other_url}"')
    there = Config()
    there.redis.url = other_url
    elsewhere = PeriodicStore(Installation.of(there).redis)
    publish(Installation.of(there).redis, make("hourly", "@hourly", "A"))
    head, *lines = call("list").output.splitlines()
    assert head.split()[-1] == "SERVER"
    assert [line.split()[-1] for line in lines] == ["main", "bulk"]
    assert call("pause", "hourly").output == "hourly on main: paused\nhourly on bulk: paused\n"
    assert (store.paused(), elsewhere.paused()) == ({"hourly"}, {"hourly"})
    assert "unknown periodic job hourli (did you mean 'hourly'?)" in call("pause", "hourli").output
    Installation.of(there).close()


def test_while_a_server_is_away_the_jobs_of_others_are_shown_and_acted_on(store, tmp_path):
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://127.0.0.1:1"\n')
    shown = call("list")
    assert shown.exit_code == 1
    assert "hourly" in shown.stdout
    assert "cannot read the periodic jobs of away: redis://127.0.0.1:1" in shown.stderr
    paused = call("pause", "hourly")
    assert (paused.exit_code, paused.stdout) == (1, "hourly on main: paused\n")
    assert call("show", "hourly").exit_code == 0
    unknown = call("pause", "nightly")
    assert unknown.exit_code == 1
    assert "redis://127.0.0.1:1" in unknown.output
