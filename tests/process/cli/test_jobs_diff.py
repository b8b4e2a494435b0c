"""``offsider jobs diff``: CI ends with 1 when a release breaks what is stored, and says the safe way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsider.core.payload import encode
from tests.process.cli.commands import SHOP, offsider


@pytest.fixture
def releases(tmp_path) -> Path:
    """Manifests ``old.json`` and ``new.json``, and the application of the new release."""
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP)
    offsider(tmp_path, "jobs", "manifest", "-r", "shop", "-o", "old.json")
    shop.write_text(
        SHOP.replace("path: str", "path: str, width: int")
        .replace("def welcome", "def hello")
        .replace('queue="low"', 'queue="reports"')
    )
    offsider(tmp_path, "jobs", "manifest", "-r", "shop", "-o", "new.json")
    return tmp_path


def test_unsafe_changes_are_named_with_the_safe_sequence_and_end_with_1(releases):
    ended = offsider(releases, "jobs", "diff", "old.json", "new.json")
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines() == [
        "UNSAFE  shop.resize its new parameter width is required: jobs are stored without it",
        "        1. add width with a default, behind the others, and deploy workers",
        "        2. send it, and wait until no job is stored without it",
        "        3. drop the default",
        "UNSAFE  shop.welcome is removed: whatever is stored under this name can be run by nobody",
        "        1. release without the code that pushes it, and keep the job",
        "        2. wait until none is stored: queues, scheduled jobs, retries (--redis counts them)",
        "        3. remove the job",
        "note    shop.ReportJob goes to queue reports in place of low",
        "        1. workers must serve reports before anything pushes there",
        "        2. serve low until it is empty, or move what is stored: offsider migrate",
        "note    shop.hello is new",
        "        jobs that are pushed before its workers run are parked",
        "2 unsafe changes, 2 notes",
    ]


def test_what_is_in_the_folder_is_the_new_release_when_none_is_named(releases):
    named = offsider(releases, "jobs", "diff", "old.json", "new.json")
    here = offsider(releases, "jobs", "diff", "old.json", "-r", "shop")
    assert (here.returncode, here.stdout) == (1, named.stdout)
    same = offsider(releases, "jobs", "diff", "new.json", "-r", "shop")
    assert (same.returncode, same.stdout) == (0, "nothing has changed for stored jobs\n")


def test_changes_of_some_jobs_can_be_let_through(releases):
    words = ("--allow", "shop.resize", "--allow", "shop.welcome")
    ended = offsider(releases, "jobs", "diff", "old.json", "new.json", *words)
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[:2] == [
        "allowed shop.resize its new parameter width is required: jobs are stored without it",
        "allowed shop.welcome is removed: whatever is stored under this name can be run by nobody",
    ]
    assert ended.stdout.splitlines()[-1] == "0 unsafe changes, 2 notes, 2 allowed"


def test_stored_jobs_are_counted_and_a_change_that_concerns_none_is_clear(releases, stored, url):
    def count():
        return offsider(releases, "jobs", "diff", "old.json", "new.json", "--redis", REDIS_URL=url)

    assert count().returncode == 0
    assert count().stdout.splitlines()[-1] == "0 unsafe changes, 2 notes, 2 clear"
    new = {job["name"]: job["signature"] for job in json.loads((releases / "new.json").read_text())["jobs"]}
    stored.sadd("queues", "default")
    stored.lpush("queue:default", encode({"class": "shop.resize", "args": ["a.png"], "jid": "a"}))
    stored.zadd("schedule", {encode({"class": "shop.resize", "args": ["a", 1], "jid": "b"}): 9e9})
    stored.zadd("retry", {encode({"class": "shop.resize", "args": [], "signature": new["shop.resize"]}): 9e9})
    stored.zadd("dead", {encode({"class": "shop.welcome", "args": [1], "jid": "d"}): 9e9})
    ended = count()
    assert ended.returncode == 1
    assert [line for line in ended.stdout.splitlines() if line.startswith(("UNSAFE", "clear", "stored"))] == [
        "UNSAFE  shop.resize its new parameter width is required: jobs are stored without it",
        "clear   shop.welcome is removed: whatever is stored under this name can be run by nobody",
        "stored  shop.resize: 1 in schedule, 1 in queue:default; 1 job could not be run, the dead left out",
        "stored  shop.welcome: 1 in dead; 0 jobs could not be run, the dead left out",
    ]


def test_what_cannot_be_compared_is_a_message(releases):
    (releases / "odd.json").write_text('{"jobs": [{"name": "shop.resize", "arguments": 7}]}')
    for words, complaint in {
        ("old.json", "nothing.json"): "name a manifest or a revision of this repository",
        ("shop.py", "new.json"): "shop.py is no manifest",
        ("odd.json", "new.json", "--redis"): "arguments of shop.resize cannot be read",
        (
            "old.json",
            "new.json",
            "--allow",
            "shop.resise",
        ): "has such a job (did you mean 'shop.resize'?)",
        ("old.json",): "which jobs? Name the application: -r MODULE",
        ("old.json", "new.json", "--redis"): "127.0.0.1:1",
    }.items():
        ended = offsider(releases, "jobs", "diff", *words)
        assert ended.returncode == 1
        assert complaint in ended.stderr, ended.stderr
        assert "Traceback" not in ended.stderr
