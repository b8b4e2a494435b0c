"""Findings as JSON and on their screen, where an operator mutes them."""

from __future__ import annotations

import json

import pytest

from offsider.inspector.findings import refresh
from tests.redis.inspector.examined import enqueue, register


@pytest.fixture
def unserved(config, raw_redis):
    """A finding whose subject is written by anybody who pushes."""
    register(raw_redis, knows=["A"], queues=["default"])
    enqueue(raw_redis, 660, queue="<b>mail/")
    refresh(config)
    return "/now/findings/unserved:~3cb~3email~2f"


def test_programs_read_all_findings(ask, unserved, raw_redis):
    found = json.loads(ask("/findings.json").body)
    assert found["severity"] == "error"
    [mail] = [each for each in found["findings"] if each["name"] == "unserved"]
    assert mail["id"] == "unserved:<b>mail/"
    assert mail["numbers"] == {"jobs": 3}


def test_a_finding_has_a_page_with_its_evidence(ask, read, unserved):
    assert b"&lt;b&gt;mail/: no worker serves it" in ask("/now/findings").body
    facts = next(block for block in read(unserved)["blocks"] if block["is"] == "facts")["facts"]
    evidence = next(each["cell"] for each in facts if each["name"] == "Evidence")
    assert evidence["links"][0]["path"] == "/jobs?where=queue%3A~3cb~3email~2f"
    assert ask("/now/findings/unserved:other").status == 404


def test_a_finding_is_muted_by_its_user_and_unmuted(ask_with, unserved):
    ask = ask_with(authenticate=lambda request: "ann")
    assert ask(f"{unserved}/mute", method="POST", body="hours=2").status == 303
    assert b"Muted by ann" in ask(unserved).body
    assert ask(f"{unserved}/unmute", method="POST", body="").status == 303
    assert b"Muted by" not in ask(unserved).body
    assert ask("/now/findings/other/mute", method="POST", body="hours=2").status == 404
    assert ask(f"{unserved}/mute", method="POST", body="hours=721").status == 400


def test_a_finding_with_a_button(read, config, raw_redis, unserved):
    raw_redis.sadd("paused", "<b>mail/")
    refresh(config)
    blocks = read("/now/findings/paused:~3cb~3email~2f")["blocks"]
    [buttons] = [block["buttons"] for block in blocks if block["is"] == "buttons"]
    assert buttons[0]["path"] == "/controls/queue~3d~3cb~3email~2f/resume"
