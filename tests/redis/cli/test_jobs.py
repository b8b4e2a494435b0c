"""``offsider jobs``: stored jobs by filters, exact counts, actions on all that match, and tracked jobs."""

from __future__ import annotations

import json
import re
import time

import pytest

from offsider import job
from offsider.cli.command import myself
from offsider.client import Client
from offsider.ext.results import Results, subscriber
from offsider.inspector import DeadSet, Quarantine, RetrySet
from offsider.inspector.events import EventLog
from offsider.jobs import registry
from offsider.testing import RunningWorker
from tests.redis.cli.commands import command
from tests.redis.web.stored import failed

call = command("jobs")
do = command("do")

pytestmark = pytest.mark.usefixtures("folder")

APP = "from offsider.ext.results import Results\n\ndef configure(config):\n    config.use(Results())\n"


@pytest.fixture
def finished(config, folder, monkeypatch):
    """The id of a tracked job that has succeeded."""
    monkeypatch.setattr(subscriber, "IDLE_SECONDS", 0.02)  # tests wait for their threads
    (folder / "kept_app.py").write_text(APP)
    config.use(Results())
    with registry.isolated():

        @job(name="kept", track=True)
        def kept() -> None: ...

        with RunningWorker(config) as worker:
            jid = Client(config).push({"class": kept, "args": []})
            worker.wait()
    return jid


@pytest.fixture
def broken(raw_redis):
    """30 dead jobs: 20 of class Mail, 12 of which failed in the last minutes; and 5 retries."""
    now = time.time()
    for number in range(30):
        at = int((now - (60 if number < 12 else 3600)) * 1000)
        fields = {"class": "Mail" if number < 20 else "Other", "failed_at": at, "retried_at": at}
        raw_redis.zadd("dead", {failed(number, **fields): now - 60})
    raw_redis.zadd("retry", {failed(100 + number): now + 900 for number in range(5)})


def test_stored_jobs_are_found_by_any_text(config):
    client = Client(config)
    jid = client.push({"class": "Mail", "args": ["ann@example.com"], "queue": "mails"})
    client.push({"class": "Mail", "args": ["bob@example.com"], "at": 4_102_444_800})
    client.push({"class": "Other", "args": ["\x1b[31m"]})
    (row,) = [line for line in call("--text", "ann@").output.splitlines() if jid in line]
    assert "queue mails" in row
    assert "ann@example.com" in row
    both = json.loads(call("--text", "example.com", "--json").output)["main"]["blocks"]
    (table,) = [block for block in both if block["is"] == "table"]
    assert {row[0]["text"] for row in table["rows"]} == {"queue mails", "Scheduled"}
    assert "\x1b" not in call("--class", "Other").output


def test_without_options_the_places_are_listed_and_without_a_match_the_exit_code_is_1(broken):
    assert re.search(r"^Dead +30", call().output, re.MULTILINE)
    assert call("--text", "nothing").exit_code == 1
    assert call("--where", "nowhere").exit_code == 1


def test_the_number_of_shown_jobs_is_the_one_that_was_asked_for(broken):
    def shown(*options: str) -> int:
        blocks = json.loads(call(*options, "--json").output)["main"]["blocks"]
        return sum(len(block["rows"]) for block in blocks if block["is"] == "table")

    assert [shown("--where", "dead", "--most", most) for most in ("3", "28", "50")] == [3, 28, 30]
    assert [shown("--class", "Mail", "--most", most) for most in ("3", "15", "50")] == [3, 15, 20]
    unbounded = call("--most", "3")
    assert unbounded.exit_code == 2
    assert "name jobs by --where or another option" in unbounded.output


def test_pages_with_other_columns_are_one_table(broken, raw_redis):
    raw_redis.zadd("dead", {json.dumps({"class": "Plain", "args": [n], "jid": f"{n:024}"}): n + 1.0 for n in range(25)})
    result = call("--where", "dead", "--json")
    (table,) = [block for block in json.loads(result.output)["main"]["blocks"] if block["is"] == "table"]
    assert {len(row) for row in table["rows"]} == {len(table["columns"])}
    errors = [row[table["columns"].index("Error")] for row in table["rows"]]
    assert [error == {"is": "text", "text": ""} for error in errors].count(False) == 30
    assert "pages" not in call("--where", "dead").output
    assert "55 in 3 pages" in call("--where", "dead", "--most", "30").output


def test_a_tracked_job_is_found_after_its_end(finished):
    result = call("--jid", finished, "-r", "kept_app")
    assert result.exit_code == 0
    assert re.search(r"^kept succeeded \d{4}-\d\d-\d\d .* ms on host \S+$", result.output, re.MULTILINE)
    assert call("--jid", "0123456789abcdef01234567", "-r", "kept_app").exit_code == 1


def test_jobs_are_counted_exactly_by_their_values(broken):
    lines = call("--where", "dead", "count").output.splitlines()
    assert any(re.fullmatch(r"Jobs +30", line) for line in lines)
    assert any(re.fullmatch(r"Class +Mail 20 Other 10", line) for line in lines)


@pytest.mark.parametrize("verb, left", [("retry", 18), ("quarantine", 18), ("delete", 18)])
def test_all_jobs_that_failed_in_the_last_minutes_are_changed(config, broken, verb, left):
    done = call("--where", "dead", "--class", "Mail", "--failed", "10m", verb, "-y")
    assert done.exit_code == 0, done.output
    assert "12 jobs of dead (class=Mail failed=" in done.output
    assert len(DeadSet(config)) == left
    assert len(Quarantine(config)) == (12 if verb == "quarantine" else 0)


def test_an_action_needs_a_filter_and_a_destructive_one_asks(config, broken):
    assert call("delete", "-y").exit_code == 2
    assert call("--where", "dead", "delete").exit_code == 1  # no terminal, no answer
    assert call("--where", "dead", "--class", "Nothing", "delete", "-y").exit_code == 1
    assert "Delete 20 jobs of Dead?" in do("jobs", "delete", "where=dead", "class=Mail").output
    assert len(DeadSet(config)) == 30


def test_some_jobs_of_several_places_are_retried_as_a_canary(config, broken):
    done = json.loads(call("--where", "dead,retry", "retry", "-y", "--first", "10", "--json").output)["main"]
    assert (done["done_to"], done["finished"]) == (10, False)
    (event,) = EventLog(config).read(kinds=["action"])
    assert (event.who, event.fields["filter"], event.fields["count"]) == (myself(), "dead,retry", "10")
    assert len(DeadSet(config)) + len(RetrySet(config)) == 25


def test_jobs_are_exported_with_their_payloads(broken):
    lines = [json.loads(line) for line in call("--where", "dead", "--class", "Mail", "export").output.splitlines()]
    assert len(lines) == 20
    assert {(line["where"], line["job"]["class"]) for line in lines} == {("dead", "Mail")}
