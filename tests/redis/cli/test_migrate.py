"""``offsider migrate``: its preview, its confirmation, and the moved jobs."""

from __future__ import annotations

import signal

import pytest
import redis as redis_py
from click.testing import CliRunner

from offsider.cli import migrate
from offsider.cli.main import main
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.inspector import Migration, MigrationReport
from offsider.jobs import registry
from tests.redis.inspector.migrating import JOBS, in_queue, in_set, push, raw_job, two_servers

SETTINGS = """\
[worker]
require = "shop_to_migrate"

[servers.bulk]
url = "{url}"

[routing]
rules = [["urgency=high", "urgent"], ["tags=bulk", "slow", "bulk"], ["*", "default"]]
"""


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path, other_url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    (tmp_path / "shop_to_migrate.py").write_text(JOBS)
    (tmp_path / "offsider.toml").write_text(SETTINGS.format(url=other_url))
    with registry.isolated():
        monkeypatch.delitem(migrate.sys.modules, "shop_to_migrate", raising=False)
        yield
    set_default_config(None)


@pytest.fixture
def bulk(other_url):
    with redis_py.Redis.from_url(other_url) as client:
        yield client


@pytest.fixture
def filled(raw_redis, bulk):
    push(raw_redis, "old", [raw_job("shop.mail", 0), raw_job("shop.report", 1), raw_job("Ruby::HardJob", 2), b"{"])
    push(raw_redis, "urgent", [raw_job("shop.mail", 3, "urgent")])
    raw_redis.zadd("retry", {raw_job("shop.mail", 4): 7})


def call(*words: str, typed: str | None = None):
    return CliRunner().invoke(main, ["migrate", *words], input=typed)


def test_a_preview_shows_jobs_that_would_move_and_why_others_stay(filled, raw_redis):
    result = call("--preview")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "JOB          WHERE  FROM  TO            JOBS",
        "shop.mail    queue  old   urgent           1",
        "shop.mail    retry  old   urgent           1",
        "shop.report  queue  old   slow of bulk     1",
        "6 jobs scanned, 3 to move",
        "  1 already in the right queue",
        "  1 of classes that are not declared here: Ruby::HardJob 1",
        "  1 malformed, or without a queue",
    ]
    assert raw_redis.llen("queue:old") == 4


def test_without_a_terminal_it_moves_at_once(filled, raw_redis, bulk):
    result = call()
    assert result.exit_code == 0, result.output
    assert ", 3 moved" in result.output
    assert in_queue(raw_redis, "urgent") == [("shop.mail", 3), ("shop.mail", 0)]
    assert in_queue(bulk, "slow") == [("shop.report", 1)]
    assert in_set(raw_redis, "retry") == {("shop.mail", 4, "urgent"): 7}
    assert ", 0 moved" in call().output


@pytest.fixture
def at_terminal(monkeypatch):
    monkeypatch.setattr(migrate, "asks", lambda: True)


def test_on_a_terminal_it_asks_first(filled, raw_redis, at_terminal):
    result = call(typed="n\n")
    assert result.exit_code == 1
    assert "Move 3 jobs? [y/N]" in result.output
    assert raw_redis.llen("queue:old") == 4
    assert call(typed="y\n").exit_code == 0
    assert raw_redis.llen("queue:old") == 2
    result = call()
    assert result.exit_code == 0
    assert "Move" not in result.output


def test_the_yes_option_skips_the_confirmation(filled, raw_redis, at_terminal):
    assert "Move" not in call("--yes").output
    assert raw_redis.llen("queue:old") == 2


def test_places_queues_jobs_and_numbers_can_be_chosen(filled):
    assert "1 job scanned, 1 to move" in call("--preview", "--retries").output
    assert "0 jobs scanned, 0 to move" in call("--preview", "--scheduled").output
    assert "5 jobs scanned, 2 to move" in call("--preview", "--queues").output
    assert "0 to move" in call("--preview", "--from", "urgent").output
    assert "1 to move" in call("--preview", "--class", "shop.report").output
    limited = call("--preview", "--limit", "1").output
    assert "1 to move" in limited
    assert "the scan is incomplete" in limited


def test_an_undeclared_job_has_no_destination(filled):
    result = call("--class", "shop.mial")
    assert result.exit_code == 1
    assert "unknown job 'shop.mial' (did you mean 'shop.mail'?)" in result.output


def test_a_queue_is_renamed_without_an_application(filled, raw_redis, tmp_path):
    (tmp_path / "offsider.toml").unlink()
    result = call("--rename", "old=legacy", "--class", "Ruby::HardJob")
    assert result.exit_code == 0, result.output
    assert in_queue(raw_redis, "legacy") == [("Ruby::HardJob", 2)]
    result = call("--rename", "old=legacy")
    assert "3 jobs scanned" in result.output or "moved" in result.output
    assert raw_redis.lrange("queue:old", 0, -1) == [b"{"]


def test_a_rename_loads_the_application_where_the_configuration_names_it(filled):
    call("--rename", "old=legacy", "--preview")
    assert registry.peek("shop.mail") is not None


@pytest.mark.parametrize("given", ["old", "=new", "old="])
def test_a_rename_has_two_names(given):
    result = call("--rename", given)
    assert result.exit_code == 1
    assert "OLD=NEW" in result.output


def test_refused_jobs_are_reported_and_fail_the_command(filled, raw_redis):
    raw_redis.delete("queue:urgent")
    raw_redis.set("queue:urgent", "no list")
    result = call("--queues", "--class", "mail")
    assert result.exit_code == 1
    assert "1 not moved: the target server rejected them" in result.output


def test_a_server_that_is_away_is_an_error(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    result = call("--preview")
    assert result.exit_code == 1
    assert "offsider: " in result.output


def test_an_unreachable_server_is_named_after_the_results(filled, raw_redis, tmp_path, at_terminal):
    (tmp_path / "offsider.toml").write_text(SETTINGS.format(url="redis://127.0.0.1:1/0"))
    result = call("--preview")
    assert result.exit_code == 1
    assert "3 to move" in result.output
    result = call("--yes")
    assert result.exit_code == 1
    assert ", 2 moved" in result.output
    assert "1 not moved: the target server rejected them" in result.output
    assert "offsider: the server bulk: redis://127.0.0.1:1/0 cannot be reached" in result.output
    assert in_queue(raw_redis, "urgent") == [("shop.mail", 3), ("shop.mail", 0)]


def test_a_queue_has_one_new_name(filled):
    result = call("--rename", "old=one", "--rename", "old=two")
    assert result.exit_code == 1
    assert "--rename names the queue old twice, as one and as two" in result.output


def test_jobs_in_transit_to_a_server_that_failed_are_reported():
    report = MigrationReport(on_their_way=1_200)
    assert "  1,200 are in transit to a server that failed: run the same command again" in migrate.shown(
        report, "moved"
    )


def test_an_unknown_queue_is_reported(filled):
    result = call("--from", "odl")
    assert result.exit_code == 0
    assert "unknown queue odl, and no job uses it" in result.output


def test_a_signal_ends_it_after_the_batch(filled, raw_redis, monkeypatch):
    run = Migration.run

    def interrupted(self, progress=None):
        signal.raise_signal(signal.SIGINT)
        return run(self, progress)

    monkeypatch.setattr(Migration, "run", interrupted)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    result = call()
    assert result.exit_code == migrate.INTERRUPTED
    assert "run the same command again" in result.output
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert raw_redis.llen("queue:old") == 2
    assert raw_redis.zcard("retry") == 1


def test_many_classes_are_summarized(raw_redis):
    push(raw_redis, "old", [raw_job(f"Ruby::Job{n}", n) for n in range(7) for _ in range(7 - n)])
    assert "28 of classes that are not declared here: Ruby::Job0 7, " in call("--preview").output
    assert " and 2 more" in call("--preview").output


def test_progress_is_shown_on_a_terminal(redis_url, raw_redis, capsys, monkeypatch, other_url):
    push(raw_redis, "old", [raw_job("shop.mail", n) for n in range(5)])
    monkeypatch.setattr(migrate.sys.stderr, "isatty", lambda: True, raising=False)
    config = two_servers(redis_url, other_url)
    migrate._with_progress(Migration(config).preview)
    Installation.of(config).close()
    assert "5 scanned" in capsys.readouterr().err
