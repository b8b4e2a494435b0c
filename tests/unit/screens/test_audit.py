"""The lines of the audit log."""

from __future__ import annotations

import logging

from offsider.screens import audit

LINE = {"who": "kim", "target": "/queues/low/clear key=1|a", "server": "main", "client": "10.0.0.1"}


def test_a_line_has_user_action_target_and_result(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    audit.log("queue.clear", "Deleted 3 jobs.", **LINE)
    record = caplog.records[-1]
    about = "who=kim client=10.0.0.1 server=main target=/queues/low/clear key=1|a"
    assert record.getMessage() == f"queue.clear {about}: Deleted 3 jobs."
    assert record.fields == {"action": "queue.clear", **LINE}


def test_without_a_user_the_line_has_the_client_address(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    audit.log("queue.clear", "x", **LINE | {"who": ""})
    audit.log("queue.clear", "x", **LINE | {"who": "", "client": ""})
    assert [record.fields["who"] for record in caplog.records[-2:]] == ["10.0.0.1", "unknown"]


def test_the_target_has_the_fields_that_choose_jobs_and_no_arguments():
    sent = [("name", "Mail"), ("key", "1|a"), ("confirmed", "yes"), ("args", '["ann@example.com"]'), ("back", "/busy")]
    assert audit.target_of("/retries/all/delete", sent) == "/retries/all/delete name=Mail key=1|a"
    assert audit.filter_of([*sent, ("text", ""), ("every", "yes")]) == "name=Mail"
    assert len(audit.target_of("/", [("key", "x" * 400)] * 400)) == audit.MAX_LETTERS + 1


def test_control_characters_are_escaped(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    sent = "a\nb\x1b[2K\u2028\u202e\x85\ud800 ä"
    audit.log("queue.clear", sent, **dict.fromkeys(LINE, sent))
    record = caplog.records[-1]
    escaped = "a\\nb\\x1b[2K\\u2028\\u202e\\x85\\ud800 ä"
    assert record.fields == {"action": "queue.clear", **dict.fromkeys(LINE, escaped)}
    about = f"who={escaped} client={escaped} server={escaped} target={escaped}"
    assert record.getMessage() == f"queue.clear {about}: {escaped}"
