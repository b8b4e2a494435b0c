"""From answers to responses."""

from __future__ import annotations

import json

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.web.answering import Answering
from offsider.web.answers import Done, NotFound, Page, Text
from offsider.web.forms import Fields
from offsider.web.options import WebOptions
from offsider.web.request import Request
from offsider.web.translation import Locale
from offsider.web.visit import Visit


@pytest.fixture
def answered(config):
    """answered(a function of the page, accept=…)"""

    def answer(page, accept="text/html"):
        request = Request("GET", "/x", root="/jobs", headers={"accept": accept})
        options = WebOptions({"main": config})
        visit = Visit(request, options, "main", "/x", Fields(), Fields(), Locale("en"))
        return Answering().response(visit, page)

    return answer


def raising(error):
    def page():
        raise error

    return page


def test_a_page_is_html_for_people_and_json_for_programs(answered):
    page = Page("confirm", "Are you sure?", {"question": "<b>?", "action": "/x", "fields": []})
    shown = answered(lambda: page)
    assert b"&lt;b&gt;?" in shown.body
    assert b'action="/jobs/x"' in shown.body
    assert dict(shown.headers)["vary"] == "Accept, Accept-Language, Cookie"
    told = json.loads(answered(lambda: page, "application/json").body)
    assert told == {**page.data, "action": "/jobs/x"}


def test_done_sends_people_on_and_tells_programs(answered):
    done = Done("/queues/ä?a=b c\r\nx", "Deleted: 1", {"count": 1})
    assert dict(answered(lambda: done).headers)["location"] == "/jobs/queues/%C3%A4?a=b%20c%0D%0Ax"
    assert json.loads(answered(lambda: done, "application/json").body) == {"done": "Deleted: 1", "count": 1}


def test_text_is_sent_as_it_is(answered):
    assert answered(lambda: Text("a 1\n", "text/x")).body == b"a 1\n"


def test_errors_are_pages_too(answered):
    missing = answered(raising(NotFound("no <such> thing")))
    assert missing.status == 404
    assert b"no &lt;such&gt; thing" in missing.body
    told = answered(raising(NotFound("gone")), "application/json")
    assert json.loads(told.body) == {"error": "gone", "status": 404}


def test_a_server_in_trouble_is_told_as_what_it_is(answered):
    answer = answered(raising(RedisUnavailable("no answer from redis://x")))
    assert answer.status == 503
    assert b"no answer from redis://x" in answer.body


def test_what_cannot_be_encoded_is_replaced(answered):
    page = Page("error", "Not found", {"error": "\ud800", "status": 404})
    assert answered(lambda: page).status == 200
    assert answered(lambda: page, "application/json").status == 200
