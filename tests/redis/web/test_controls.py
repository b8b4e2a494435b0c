"""Controls on their tab: shown, set, ended; limits, slots and held jobs; and the notes on other pages."""

from __future__ import annotations

import json
import logging
import re
from urllib.parse import quote, urlencode

import pytest

from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.inspector import Controls
from offsider.storage import control_table, slots
from offsider.storage.slots import Rate
from tests.markup import Markup
from tests.redis.web.conftest import asker

NAME = "<b>Hard</b>"


def body(**fields: object) -> str:
    return urlencode(fields)


def table(data, title):
    """Return the texts of a table's cells."""
    (found,) = (block for block in data["blocks"] if block.get("title") == title)
    return [[cell.get("text", cell.get("value")) for cell in row] for row in found["rows"]]


@pytest.fixture
def redis(config):
    return Installation.of(config).redis


@pytest.fixture
def busy(config, redis, raw_redis):
    """A class at its limit of 3, with held jobs."""
    slots.declare(redis, {NAME: (3, Rate(5, 60_000))}, config.clock.now())
    raw_redis.sadd("offsider:groups", NAME)
    raw_redis.sadd("offsider:places", redis.keys.held(NAME))
    raw_redis.zadd(redis.keys.slots(NAME), {f"host:1:a {n} held{n}": 1_700_000_000_000 for n in range(3)})
    for jid in ("a", "b"):
        raw_redis.lpush(redis.keys.held(NAME), encode({"class": NAME, "args": [], "jid": jid, "queue": "default"}))


def test_a_control_is_shown_with_subject_action_time_user_and_reason(ask, read, config, redis):
    Controls(config).drop("HardJob", by="ann", reason="the bank <is> down", lasting=3600)
    Controls(config).defer("urgency=low", 120)
    control_table.count(redis, {"HardJob": 7})
    hard, low = table(read("/controls"), "Controls")
    assert (hard[0], hard[1], hard[4], hard[5]) == ("HardJob", "dropped", 7, "the bank <is> down (ann)")
    assert (low[0], low[1]) == ("urgency=low", "deferred by 120 s")
    assert [row[0] for row in table(read("/controls", "name=low"), "Controls")] == ["urgency=low"]
    assert "the bank <is> down" in Markup(ask("/controls").body.decode()).text
    assert "Operators decided about these jobs: " in Markup(ask("/class/HardJob").body.decode()).text


@pytest.mark.parametrize(
    "verb, fields, described",
    [
        ("run", {}, "run without a limit"),
        ("limit", {"limit": 3}, "limited to 3"),
        ("hold", {}, "held"),
        ("defer", {"minutes": 2}, "deferred by 120 s"),
        ("drop", {}, "dropped"),
        ("drop", {"delete": 1}, "deleted"),
    ],
)
def test_a_control_is_set_and_ended_and_audited(config, caplog, verb, fields, described):
    caplog.set_level(logging.INFO, "offsider.web")
    ask = asker(config)
    given = body(subject="HardJob", reason="broken", hours=2, **fields)
    done = ask(f"/controls/{verb}", method="POST", body=given)
    assert dict(done.headers)["location"] == "/controls"
    (control,) = Controls(config)
    assert (control.subject, control.described, control.reason) == ("HardJob", described, "broken")
    assert control.until == control.since + 7200
    ask("/controls/HardJob/resume", method="POST")
    assert list(Controls(config)) == []
    assert f"controls.{verb} who=" in caplog.text
    assert f"HardJob: {described}" in caplog.text
    assert "controls.resume who=" in caplog.text


def test_programs_get_messages(ask, config, redis, raw_redis):
    def act(verb: str, **fields: object):
        answer = ask(f"/controls/{verb}", method="POST", body=body(**fields), accept="application/json")
        return answer.status, json.loads(answer.body)

    assert act("hold", subject="urgent=1")[0] == 400
    assert act("hold", subject="")[0] == 400
    assert act("hold", subject="A", other=1)[0] == 400
    assert act("A/resume") == (404, {"error": "no control is set for A", "status": 404})
    raw_redis.sadd("processes", "a:1:x")
    raw_redis.hset("a:1:x", mapping={"info": "{}"})
    raw_redis.hset("a:1:x", "jobs", '{"app.Export": "5ca1ab1e"}')
    assert act("hold", subject="A")[1]["done"] == "A: held. No live worker declares this class"


def test_a_class_is_shown_with_its_slots_and_held_jobs(ask, read, busy):
    path = f"/controls/{quote(NAME, safe='')}"
    assert table(read("/controls"), "Limits and held jobs") == [[NAME, "3, 5 in 0:01:00", 3, 2]]
    data = read(path)
    assert [row[0] for row in table(data, "Jobs holding a slot")] == ["held0", "held1", "held2"]
    name = quote(NAME, safe="")
    assert f'href="/jobs?where=held&amp;class={name}"' in ask(path).body.decode()
    listed = json.dumps(read("/jobs", f"where=held&class={name}"))
    assert [f"/job/{jid}" in listed for jid in "abc"] == [True, True, False]
    assert "<b>" not in Markup(ask(path).body.decode()).text.replace(NAME, "")


def test_keys_are_listed_in_pages_and_found_by_their_text(ask, read, redis, raw_redis):
    groups = [f"Export[tenant {number:02}]" for number in range(60)]
    raw_redis.sadd("offsider:groups", *groups)
    for group in [*groups, groups[-1]]:
        raw_redis.lpush(redis.keys.held(group), encode({"class": "Export", "args": [], "jid": "a", "queue": "default"}))
    rows = table(read("/controls/Export"), "Keys")
    assert (len(rows), rows[0]) == (25, ["Export[tenant 59]", 0, 2])
    assert [row[0] for row in table(read("/controls/Export", "key=07"), "Keys")] == ["Export[tenant 07]"]
    assert [row[0] for row in table(read("/controls", "name=tenant+07"), "Limits and held jobs")] == ["Export"]
    (query,) = re.findall(r'href="/jobs\?(where=held[^"]*)"', ask(f"/controls/{quote(groups[-1])}").body.decode())
    listed = json.dumps(read("/jobs", query))
    assert (listed.count("/job/a"), "tenant 58" in listed) == (2, False)
