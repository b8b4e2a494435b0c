"""The audit log."""

from __future__ import annotations

import logging
from dataclasses import replace

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web import audit
from offsider.web.options import WebOptions
from offsider.web.page_request import PageRequest
from offsider.web.request import Fields, Request
from offsider.web.translation import english

PAGE_REQUEST = PageRequest(
    http=Request("POST", "/queues/low/clear", client="10.0.0.1"),
    options=WebOptions({"main": Installation.of(Config())}),
    server="main",
    location="/queues/low/clear",
    query=Fields(),
    form=Fields([("key", "1|a"), ("confirmed", "yes"), ("back", "/busy")]),
    locale=english(),
)


def test_a_line_has_user_action_target_and_result(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    audit.note(replace(PAGE_REQUEST, who="kim"), "queue.clear", "Deleted 3 jobs.")
    record = caplog.records[-1]
    about = "who=kim client=10.0.0.1 server=main target=/queues/low/clear key=1|a"
    assert record.getMessage() == f"queue.clear {about}: Deleted 3 jobs."
    assert record.fields == {
        "who": "kim",
        "action": "queue.clear",
        "target": "/queues/low/clear key=1|a",
        "server": "main",
        "client": "10.0.0.1",
    }


def test_without_a_user_the_line_has_the_client_address(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    audit.note(PAGE_REQUEST, "queue.clear", "x")
    audit.note(replace(PAGE_REQUEST, http=Request("POST", "/")), "queue.clear", "x")
    assert [record.fields["who"] for record in caplog.records[-2:]] == ["10.0.0.1", "unknown"]


def test_long_values_are_cut():
    many = replace(PAGE_REQUEST, form=Fields([("key", "x" * 400)] * 400))
    assert len(audit.target_of(many)) == audit.MAX_LETTERS + 1


def test_control_characters_are_escaped(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    sent = "a\nb\x1b[2K\u2028\u202e\x85\ud800 ä"
    audit.note(replace(PAGE_REQUEST, who=sent, location=sent), "queue.clear", sent)
    record = caplog.records[-1]
    escaped = "a\\nb\\x1b[2K\\u2028\\u202e\\x85\\ud800 ä"
    assert record.fields["who"] == escaped
    assert record.fields["target"].startswith(escaped)
    target = record.fields["target"]
    assert record.getMessage() == (f"queue.clear who={escaped} client=10.0.0.1 server=main target={target}: {escaped}")
