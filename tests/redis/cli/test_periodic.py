"""``offsider periodic``: list, check and run."""

from __future__ import annotations

import re
import sys

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import HistoryLine, PeriodicStore
from offsider.jobs import registry
from tests.redis.cli.commands import command
from tests.redis.ext.periodic.live_processes import publish

call = command("periodic")

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
def application(folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (folder / "periodic_app.py").write_text(APP)
    with registry.isolated():
        yield
    sys.modules.pop("periodic_app", None)


@pytest.fixture
def store(config):
    store = PeriodicStore(Installation.of(config).redis)
    publish(Installation.of(config).redis, make("hourly", "@hourly", "A", {"queue": "low", "description": "x"}))
    yield store
    Installation.of(config).close()


def test_the_list_has_those_of_workers_and_of_the_application(store):
    result = call("list", "-r", "periodic_app")
    assert result.exit_code == 0, result.output
    head, hourly, nightly = result.output.splitlines()[1:4]
    assert head.split() == ["NAME", "CRON", "TIME", "ZONE", "JOB", "LAST", "NEXT", "MISSED", "STATE"]
    assert hourly.split()[:4] == ["hourly", "@hourly", "UTC", "A"]
    assert nightly.endswith("no live process has it")


def test_one_is_shown_with_its_words_and_history(store):
    store.note("hourly", HistoryLine("skipped", 1e9, 1e9, count=4, by="me"))
    store.pause("hourly", by="Kim", reason="the partner is down")
    output = call("show", "hourly").output
    assert "At the start of every hour" in output
    assert re.search(r"State +paused 20[0-9-]+ [0-9:]+ UTC by Kim: the partner is", output)
    assert "Resume: offsider do periodic hourly/resume" in output
    assert "skipped: 4" in output
    publish(store._redis, make("hourly", "@daily", "A"), since=2.0)
    assert "Live processes define this job differently" in call("show", "hourly").output


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


def test_a_job_that_is_on_two_servers_is_acted_on_on_both(store, other_url, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{other_url}"')
    there = Config()
    there.redis.url = other_url
    elsewhere = PeriodicStore(Installation.of(there).redis)
    publish(Installation.of(there).redis, make("hourly", "@hourly", "A"))
    titles = [line for line in call("list").output.splitlines() if line.startswith("Periodic")]
    assert titles == ["Periodic on main", "Periodic on bulk"]
    assert call("pause", "hourly").output == "Paused: hourly (main, bulk)\n"
    assert [*store.paused(), *elsewhere.paused()] == ["hourly", "hourly"]
    assert "unknown periodic job hourli (did you mean 'hourly'?)" in call("pause", "hourli").output
    Installation.of(there).close()


def test_while_a_server_is_away_the_jobs_of_others_are_shown_and_acted_on(store, tmp_path):
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://127.0.0.1:1"\n')
    shown = call("list")
    assert shown.exit_code == 1
    assert "hourly" in shown.stdout
    assert "cannot read periodic of away: redis://127.0.0.1:1" in shown.stderr
    paused = call("pause", "hourly")
    assert (paused.exit_code, paused.stdout) == (1, "Paused: hourly\n")
    assert "hourly" in call("show", "hourly").stdout
    unknown = call("pause", "nightly")
    assert unknown.exit_code == 1
    assert "redis://127.0.0.1:1" in unknown.output
