"""From page results to responses."""

from __future__ import annotations

import json
import re

import pytest

from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.web import rendering
from offsider.web.options import WebOptions
from offsider.web.page_request import PageRequest
from offsider.web.request import Fields, Request
from offsider.web.results import ActionResult, BadRequest, Message, NotFound, Page, Text
from offsider.web.translation import english


@pytest.fixture
def answered(config):
    """answered(a function of the page, accept=…)"""

    def answer(page, accept="text/html", **options):
        request = Request("GET", "/x", root="/jobs", headers={"accept": accept})
        options = WebOptions({"main": Installation.of(config)}, **options)
        page_request = PageRequest(request, options, "main", "/x", Fields(), Fields(), english())
        return rendering.response(page_request, page)

    return answer


def raising(error):
    def page():
        raise error

    return page


def test_a_page_is_html_for_browsers_and_json_for_programs(answered):
    page = Page("confirm", "Are you sure?", {"question": "<b>?", "action": "/x", "fields": [], "back": "/y?a=b"})
    shown = answered(lambda: page)
    assert b"&lt;b&gt;?" in shown.body
    assert b'action="/jobs/x"' in shown.body
    assert b'href="/jobs/y?a=b">Cancel<' in shown.body
    assert dict(shown.headers)["vary"] == "Accept, Accept-Language, Cookie"
    reported = json.loads(answered(lambda: page, "application/json").body)
    assert reported == {**page.data, "action": "/jobs/x", "back": "/jobs/y?a=b"}


def test_done_redirects_browsers_and_is_json_for_programs(answered):
    done = ActionResult("/queues/ä?a=b c\r\nx", Message("done.deleted", count=1), {"count": 1})
    assert dict(answered(lambda: done).headers)["location"] == "/jobs/queues/%C3%A4?a=b%20c%0D%0Ax"
    assert json.loads(answered(lambda: done, "application/json").body) == {"done": "Deleted 1 job.", "count": 1}


def test_text_is_sent_unchanged(answered):
    assert answered(lambda: Text("a 1\n", "text/x")).body == b"a 1\n"


def test_errors_are_rendered_as_pages(answered):
    missing = answered(raising(NotFound("no <such> thing")))
    assert missing.status == 404
    assert b"no &lt;such&gt; thing" in missing.body
    reported = answered(raising(NotFound("gone")), "application/json")
    assert json.loads(reported.body) == {"error": "gone", "status": 404}


def test_a_redis_failure_is_a_503_page(answered):
    answer = answered(raising(RedisUnavailable("no answer from redis://x")))
    assert answer.status == 503
    assert b"no answer from redis://x" in answer.body


def test_characters_that_cannot_be_encoded_are_replaced(answered):
    page = Page("error", "Not found", {"error": "\ud800", "status": 404})
    assert answered(lambda: page).status == 200
    assert answered(lambda: page, "application/json").status == 200


def test_an_error_has_the_same_text_for_people_and_programs(answered):
    error = BadRequest("error.bad_choice", name="order", choices="a, b")
    assert "order must be one of a, b." in answered(raising(error)).body.decode()
    reported = answered(raising(error), "application/json")
    assert json.loads(reported.body)["error"] == "order must be one of a, b."


@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_an_unexpected_error_is_a_page_with_the_reference_number_in_the_log(answered, caplog, accept):
    answer = answered(raising(RuntimeError("the secret is 42")), accept)
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert (b"<h1>" in answer.body) == (accept == "text/html")
    number = re.search(r"internal error ([0-9a-f]+): ", caplog.text)[1]
    assert number in answer.body.decode()
    assert "the secret is 42" in caplog.text


def test_if_the_error_page_fails_too_the_response_is_text(answered, caplog, monkeypatch):
    def broken(*args):
        raise KeyError("layout")

    monkeypatch.setattr(rendering, "render", broken)
    answer = answered(raising(RuntimeError("the secret is 42")))
    assert answer.status == 500
    assert dict(answer.headers)["content-type"].startswith("text/plain")
    assert answer.body.startswith(b"Internal error ")
    assert "the secret is 42" in caplog.text
    assert "KeyError" in caplog.text
