"""The first page: findings, what is normal, and the search box."""

from __future__ import annotations

import pytest

from offsider.inspector.findings import mute, refresh
from offsider.web import rendering
from tests.redis.inspector.examined import register
from tests.redis.web.stored import failed
from tests.waiting import wait_for

JOB = b'{"class":"A","args":[],"jid":"1","queue":"newsletter","enqueued_at":1000}'


def headers(answer):
    return dict(answer.headers)


def about(data, queue):
    return next((each for each in data["findings"] if each["id"] == f"paused:{queue}"), None)


@pytest.fixture
def paused(raw_redis, config):
    """A paused queue with a job, as the workers found it."""
    raw_redis.sadd("queues", "newsletter")
    raw_redis.lpush("queue:newsletter", JOB)
    raw_redis.sadd("paused", "newsletter")
    refresh(config)


def test_a_finding_has_its_subject_reason_and_actions(paused, read, ask):
    data = read("/")
    finding = about(data, "newsletter")
    assert (finding["subject"], finding["path"]) == ("newsletter", "/jobs?where=queue%3Anewsletter")
    assert finding["since"] is not None
    (resume, *_) = finding["buttons"]
    assert resume["text"] == "Resume"
    assert (data["waiting"], data["normal_queues"]) == (1, 0)
    assert "paused by an unknown client" in ask("/").body.decode()
    answer = ask(resume["path"], method="POST", referer="http://localhost/")
    assert (answer.status, headers(answer)["location"]) == (303, "/")
    assert about(read("/"), "newsletter") is None


def test_a_finding_without_a_button_that_acts_shows_its_command(raw_redis, config, ask):
    raw_redis.sadd("queues", "newsletter")
    raw_redis.lpush("queue:newsletter", JOB)
    refresh(config)
    assert "offsider worker -r YOUR_MODULE" in ask("/").body.decode()


def test_many_viewers_get_one_page_but_for_what_they_may_do(paused, ask_with, monkeypatch):
    rendered = []
    monkeypatch.setattr(rendering, "render", lambda *given: rendered.append(given[0]) or "page")
    ask = ask_with()
    assert {ask("/").body for _ in range(5)} == {b"page"}
    assert len(rendered) <= 2  # two, if a second has passed
    rendered.clear()
    ask_own = ask_with(authorize=lambda request, action: True)
    assert [ask_own("/").status for _ in range(3)] == [200] * 3
    assert len(rendered) == 3


def test_a_muted_finding_is_no_longer_among_those_that_need_somebody(paused, config, read):
    finding = about(read("/"), "newsletter")
    mute(finding["id"], 3600, config, by="kim")
    (muted,) = wait_for(lambda: read("/")["muted"])
    assert about(read("/"), "newsletter") is None
    assert (muted["id"], muted["muted_by"]) == (finding["id"], "kim")


@pytest.mark.parametrize(
    "text,address",
    [
        ("", "/jobs"),
        ("  ABCDEFABCDEFABCDEFABCDEF ", "/job/abcdefabcdefabcdefabcdef"),
        ("NewsLetter", "/jobs?where=queue%3Anewsletter"),
        ("WEB-1:7", "/fleet/processes/web-1:7:abcdef"),
        ("customer 7", "/jobs?text=customer+7"),
    ],
)
def test_the_search_box_finds_what_a_text_names(paused, ask, raw_redis, text, address):
    register(raw_redis, "web-1:7:abcdef")
    answer = ask("/find", f"q={text.replace(' ', '+')}")
    assert (answer.status, headers(answer)["location"]) == (302, address)


def test_the_probe_of_a_load_balancer_costs_one_command(ask, raw_redis):
    raw_redis.zadd("dead", {failed(1): 1})
    assert ask("/", method="HEAD").status == 200
