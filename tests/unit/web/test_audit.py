"""The audit log."""

from __future__ import annotations

import logging
from dataclasses import replace

from offsider.web import audit
from offsider.web.forms import Fields
from offsider.web.options import WebOptions
from offsider.web.request import Request
from offsider.web.translation import Locale
from offsider.web.visit import Visit
from offsider.wiring.config import Config

VISIT = Visit(
    request=Request("POST", "/queues/low/clear", client="10.0.0.1"),
    options=WebOptions({"main": Config()}),
    server="main",
    location="/queues/low/clear",
    query=Fields(),
    form=Fields([("key", "1|a"), ("confirmed", "yes"), ("back", "/busy")]),
    locale=Locale("en"),
)


def test_a_line_says_who_did_what_to_what_and_what_came_of_it(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    audit.note(replace(VISIT, who="kim"), "queue.clear", "Deleted: 3")
    record = caplog.records[-1]
    assert record.getMessage() == "queue.clear: Deleted: 3"
    assert record.fields == {
        "who": "kim",
        "action": "queue.clear",
        "target": "/queues/low/clear key=1|a",
        "server": "main",
        "client": "10.0.0.1",
    }


def test_without_a_name_the_address_stands_for_it(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    audit.note(VISIT, "queue.clear", "x")
    audit.note(replace(VISIT, request=Request("POST", "/")), "queue.clear", "x")
    assert [record.fields["who"] for record in caplog.records[-2:]] == ["10.0.0.1", "unknown"]


def test_a_line_stays_a_line():
    many = replace(VISIT, form=Fields([("key", "x" * 400)] * 400))
    assert len(audit.target_of(many)) == audit.MOST_LETTERS + 1


def test_what_was_sent_neither_ends_a_line_nor_hides_a_part_of_it(caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    sent = "a\nb\x1b[2K\u2028\u202e\x85\ud800 ä"
    audit.note(replace(VISIT, who=sent, location=sent), "queue.clear", sent)
    record = caplog.records[-1]
    escaped = "a\\nb\\x1b[2K\\u2028\\u202e\\x85\\ud800 ä"
    assert record.fields["who"] == escaped
    assert record.fields["target"].startswith(escaped)
    assert record.getMessage() == f"queue.clear: {escaped}"
