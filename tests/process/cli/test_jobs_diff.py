"""``offsider jobs diff``: CI fails when a release cannot run stored jobs, and shows both signatures and the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from offsider.core.payload import encode
from offsider.fleet.manifest import GUIDE
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


def test_unsafe_changes_are_shown_with_both_signatures_and_exit_with_1(releases):
    ended = offsider(releases, "jobs", "diff", "old.json", "new.json")
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines() == [
        "UNSAFE  shop.resize",
        "        old: (path: str)",
        "        new: (path: str, width: int)",
        f"        jobs may be stored without width, which is required; see {GUIDE}",
        "UNSAFE  shop.welcome",
        "        old: (user_id: int)",
        "        new: none",
        f"        no job of the new release has this name; see {GUIDE}",
        "2 unsafe changes",
    ]


def test_the_new_release_defaults_to_the_application_in_the_folder(releases):
    named = offsider(releases, "jobs", "diff", "old.json", "new.json")
    default = offsider(releases, "jobs", "diff", "old.json", "-r", "shop")
    assert (default.returncode, default.stdout) == (1, named.stdout)
    same = offsider(releases, "jobs", "diff", "new.json", "-r", "shop")
    assert (same.returncode, same.stdout) == (0, "0 unsafe changes\n")


def test_changes_of_some_jobs_can_be_allowed(releases):
    ended = offsider(releases, "jobs", "diff", "old.json", "new.json", "--allow", "shop.resize")
    lines = [line for line in ended.stdout.splitlines() if not line.startswith(" ")]
    assert lines == ["allowed shop.resize", "UNSAFE  shop.welcome", "1 unsafe change, 1 allowed"]


def test_stored_jobs_are_counted_and_a_change_that_affects_none_is_safe(releases, stored, url):
    def count():
        return offsider(releases, "jobs", "diff", "old.json", "new.json", "--redis", REDIS_URL=url)

    assert count().returncode == 0
    assert count().stdout.splitlines()[-1] == "0 unsafe changes, 2 safe"
    new = {job["name"]: job["signature"] for job in json.loads((releases / "new.json").read_text())["jobs"]}
    stored.sadd("queues", "default")
    stored.lpush("queue:default", encode({"class": "shop.resize", "args": ["a.png"], "jid": "a"}))
    stored.zadd("schedule", {encode({"class": "shop.resize", "args": ["a", 1], "jid": "b"}): 9e9})
    stored.zadd("retry", {encode({"class": "shop.resize", "args": [], "signature": new["shop.resize"]}): 9e9})
    stored.zadd("dead", {encode({"class": "shop.welcome", "args": [1], "jid": "d"}): 9e9})
    ended = count()
    assert ended.returncode == 1
    lines = map(str.strip, ended.stdout.splitlines())
    assert [line for line in lines if line.startswith(("UNSAFE", "safe", "st"))] == [
        "UNSAFE  shop.resize",
        "stored: 1 in schedule, 1 in queue:default; 1 job affected (dead jobs not counted)",
        "safe    shop.welcome",
        "stored: 1 in dead; 0 jobs affected (dead jobs not counted)",
    ]


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("old.json nothing.json", "No such file or directory: 'nothing.json'"),
        ("shop.py new.json", "shop.py is not a manifest"),
        ("odd.json new.json --redis", "cannot read the arguments of shop.resize"),
        ("old.json new.json --allow shop.resise", "not found in either release (did you mean 'shop.resize'?)"),
        ("old.json", "no application given: -r MODULE"),
        ("old.json new.json --redis", "127.0.0.1:1"),
    ],
)
def test_incomparable_inputs_are_one_message(releases, line, complaint):
    (releases / "odd.json").write_text('{"jobs": [{"name": "shop.resize", "arguments": 7}]}')
    ended = offsider(releases, "jobs", "diff", *line.split())
    assert ended.returncode == 1
    assert complaint in ended.stderr
