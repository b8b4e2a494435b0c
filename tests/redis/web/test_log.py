"""The event log on its page and as Markdown: each action of the pages is in it, with who, what and how many."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from offsider.inspector import Controls, DeadSet, EventLog, Queue
from offsider.storage import events
from tests.markup import Markup
from tests.process.stored import push

KEYED = "shop.sync[acme]"


@pytest.fixture
def log(config) -> EventLog:
    return EventLog(config)


@pytest.fixture
def kim(ask_with):
    """Asks as the user Kim, who may not clear queues."""
    return ask_with(authenticate=lambda request: "Kim", authorize=lambda request, action: action != "jobs.delete")


def rows(data) -> list[list[str]]:
    """Kind, sentence, subject and operator of each event on a page."""
    (table,) = (block for block in data["blocks"] if block["is"] == "table")
    return [[cell["text"] for cell in row[1:]] for row in table["rows"]]


def test_each_event_is_one_sentence(read, ask, log, config):
    log.note("deploy", "v42", process="vm:1:a", before="v41")
    log.note("deploy", "v43", "cli root@vm")
    log.note("process-died", "vm:1:a", how="was killed by SIGSEGV", jobs=1)
    log.note("process-started", "vm:2:a", release="v42")
    Queue("exports", config).pause(by="Kim", reason="the partner is down")
    Queue("exports", config).unpause(by="Ann")
    Controls(config).limit("Mail", 3, by="Kim")
    log.note("poison-pill", "ab12", **{"class": "Report", "processes": 3})
    log.note("reconnected", "vm:2:a", seconds=12.5)
    log.note("finding-new", "Mail", finding="class.broken", what="Mail: 72 % of runs fail")
    log.note("finding-ended", "Mail", finding="class.broken", what="Mail: 72 % of runs fail")
    log.note("failure-rate", "<b>Mail</b>", text="<b>Mail</b> fails more often.")
    log.note("other", "x", number=1)
    assert [row[1] for row in rows(read("/log"))] == [
        "other x number=1",
        "<b>Mail</b> fails more often.",
        "Ended: Mail: 72 % of runs fail",
        "Found: Mail: 72 % of runs fail",
        "Redis was unreachable for 12.5 s.",
        "Report ab12 is a poison pill: 3 processes died with it.",
        "Kim set a control, jobs of Mail are limited to 3.",
        "Ann resumed queue exports.",
        "Kim paused queue exports: the partner is down",
        "vm:2:a started with release v42.",
        "vm:1:a died: it was killed by SIGSEGV and held 1 job.",
        "cli root@vm recorded the deploy v43.",
        "Release v42 was deployed, after v41: vm:1:a was its first process.",
    ]
    page = Markup(ask("/log").body.decode())
    assert "<b>Mail</b> fails more often." in page.text


def test_actions_are_recorded_with_user_filter_count_and_undo(kim, read, raw_redis, config):
    for _ in range(3):
        raw_redis.zadd("dead", {f'{{"class":"Mail","args":["secret"],"jid":"{_}","queue":"low"}}': 1_700_000_000 + _})
    raw_redis.zadd("dead", {'{"class":"Other","args":[],"jid":"o","queue":"low"}': 1})
    assert kim("/jobs/quarantine", method="POST", body=urlencode({"where": "dead", "class": "Mail"})).status == 303
    assert len(DeadSet(config)) == 1
    (event,) = EventLog(config).read()
    assert (event.kind, event.who, event.fields["action"]) == ("action", "Kim", "jobs.quarantine")
    assert (event.fields["filter"], event.fields["count"], event.fields["undo"]) == (
        "dead (class=Mail)",
        "3",
        "quarantine",
    )
    assert "secret" not in str(event)
    (row,) = rows(read("/log"))
    assert row[1] == f"Kim did jobs.quarantine on jobs (dead (class=Mail)): {event.fields['outcome']}"


def test_refused_and_failed_actions_are_recorded_and_strangers_are_not(kim, ask_with, config, raw_redis):
    push(raw_redis, "Mail", queue="low")
    assert kim("/jobs/delete", method="POST", body="where=queue:low&every=yes").status == 403
    assert kim("/fleet/queues/low/pause", method="POST", body="x=1").status == 400
    refused, failed = reversed(EventLog(config).read())
    assert (refused.subject, refused.who, refused.fields["action"]) == ("jobs", "Kim", "jobs.delete")
    assert "not" in refused.fields["error"]
    assert (failed.fields["action"], failed.fields["error"]) == (
        "queues.pause", "Nothing was changed: unknown field x. Known fields: reason."
    )  # fmt: skip
    assert ask_with(authenticate=lambda request: None)("/fleet/queues/low/pause", method="POST").status == 403
    assert kim("/fleet/queues/low/pause", method="POST", sec_fetch_site="cross-site").status == 403
    assert len(EventLog(config)) == 2


def test_a_pause_is_one_event_of_the_user(kim, config, raw_redis):
    raw_redis.sadd("queues", "low")
    Queue("low", config).pause()
    kim("/fleet/queues/low/resume", method="POST")
    kim("/fleet/queues/low/pause", method="POST")
    assert [(event.kind, event.subject, event.who) for event in EventLog(config).read()] == [
        ("control-set", "queue=low", "Kim"),
        ("control-removed", "queue=low", "Kim"),
        ("control-set", "queue=low", ""),
    ]


def test_without_authentication_the_author_is_the_address_of_the_client(config, ask, raw_redis):
    raw_redis.sadd("queues", "low")
    ask("/fleet/queues/low/pause", method="POST")
    assert Controls(config).find("queue=low").by == EventLog(config).read()[0].who == "unknown"


def test_the_log_is_filtered_and_paged(read, log, raw_redis):
    for number in range(60):
        raw_redis.xadd("offsider:events", {"kind": "deploy", "subject": f"v{number}"}, id=f"{1000 + number}000-1")
    log.note("process-died", "vm:1:a", "Ann")
    (newest, *_), page = rows(read("/log")), read("/log", "page=3")
    assert newest[0] == "process-died"
    assert [row[2] for row in rows(page)] == [f"v{number}" for number in range(10, -1, -1)]
    assert page["blocks"][0]["total"] == 61
    assert [row[2] for row in rows(read("/log", "who=ann"))] == ["vm:1:a"]
    assert [row[2] for row in rows(read("/log", "kind=died"))] == ["vm:1:a"]
    assert [row[2] for row in rows(read("/log", "since=1h"))] == ["vm:1:a"]
    times = urlencode({"since": "1970-01-01T00:16:50", "until": "1970-01-01T00:16:52+00:00"})
    assert [row[2] for row in rows(read("/log", times))] == ["v12", "v11", "v10"]
    assert len(rows(read("/log", "kind=deploy"))) == 25
    assert rows(read("/log", "kind=nothing")) == []


def test_no_event_is_older_than_the_epoch(read, log):
    log.note("deploy", "v1")
    assert rows(read("/log", "until=999999999d")) == rows(read("/log", "until=0001-01-01")) == []


def test_a_bad_time_names_the_two_forms(ask):
    answer = ask("/log", "since=yesterday", accept="application/json")
    assert answer.status == 400
    assert "an age such as 30m, 2h or 1d, or a time in UTC such as 2026-11-28T03:47" in answer.body.decode()


def test_the_timeline_of_a_postmortem_is_markdown(ask, raw_redis):
    for at, kind, subject in (
        (5, "deploy", "v_42 <i>\n# ~\x1b[3m"),
        (9, "process-ended", "vm:1:a"),
        (99, "deploy", "later"),
    ):
        raw_redis.xadd("offsider:events", {"kind": kind, "subject": subject, "process": "p"}, id=f"{at}000-1")
    answer = ask("/log.md", "until=1970-01-01T00:01")
    assert dict(answer.headers)["content-type"].startswith("text/plain")
    assert answer.body.decode() == (
        "- **1970-01-01 00:00:05** Release v\\_42 \\<i\\> \\# \\~\\\\x1b\\[3m was deployed: p was its first process.\n"
        "- **1970-01-01 00:00:09** vm:1:a ended.\n"
    )
    page = Markup(ask("/log", "until=1970-01-01T00:01").body.decode())
    assert "/log.md?until=1970-01-01T00%3A01" in [link["href"] for link in page.all("a")]
    assert ask("/log.md", "kind=nothing").body == b"No events.\n"


def test_the_key_of_a_class_is_hidden_with_the_arguments(config, ask_with):
    Controls(config).hold(KEYED, by="Kim")
    open_, hidden = ask_with(), ask_with(redact=lambda name, args, kwargs: ([], {}))
    for path in ("/log", "/log.md"):
        assert "acme" in open_(path).body.decode()
        assert "acme" not in hidden(path).body.decode()
        assert "shop.sync" in hidden(path).body.decode()


def test_subjects_are_links(read, log, config):
    Queue("low", config).pause()
    Controls(config).hold("Mail")
    Controls(config).hold("urgency=low")
    log.note("poison-pill", "ab12")
    log.note("error-new", "Mail", group="abc")
    log.note(events.DIED, "vm:1:a")
    log.note("deploy", "v1")
    (table,) = (block for block in read("/log")["blocks"] if block["is"] == "table")
    assert [row[3].get("path") for row in table["rows"]] == [
        "/log?subject=v1", "/fleet", "/error/abc", "/job/ab12", None, "/class/Mail", "/jobs?where=queue%3Alow"
    ]  # fmt: skip
