"""From results of pages to responses, and the frame of every page."""

from __future__ import annotations

import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from offsider.config.addresses import ScreenPath, with_fields
from offsider.config.installation import Installation
from offsider.screens.errors import BadRequest, NotFound
from offsider.screens.messages import Message
from offsider.screens.translation import english
from offsider.web import rendering
from offsider.web.app import WebApp
from offsider.web.page_request import PageRequest, WebOptions
from offsider.web.rendering import FOLDER, environment
from offsider.web.request import Fields, Request
from offsider.web.results import ActionResult, Page


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
    paths = {"action": ScreenPath("/x"), "back": with_fields("/y", a="b")}
    page = Page("confirm", "Are you sure?", {"question": "<b>?", "fields": [], **paths})
    shown = answered(lambda: page)
    assert b"&lt;b&gt;?" in shown.body
    assert b'action="/jobs/x"' in shown.body
    assert b'href="/jobs/y?a=b">Cancel<' in shown.body
    assert dict(shown.headers)["vary"] == "Accept, Accept-Language, Cookie"
    reported = json.loads(answered(lambda: page, "application/json").body)
    assert reported == {**page.data, "action": "/jobs/x", "back": "/jobs/y?a=b"}


def test_done_redirects_browsers_and_is_json_for_programs(answered):
    done = ActionResult("/queues/ä?a=b c\r\nx", Message("Deleted 1 job."), {"count": 1})
    assert dict(answered(lambda: done).headers)["location"] == "/jobs/queues/%C3%A4?a=b%20c%0D%0Ax"
    assert json.loads(answered(lambda: done, "application/json").body) == {"done": "Deleted 1 job.", "count": 1}


def test_characters_that_cannot_be_encoded_are_replaced(answered):
    page = Page("error", "Not found", {"error": "\ud800", "status": 404})
    assert answered(lambda: page).status == 200
    assert answered(lambda: page, "application/json").status == 200


@pytest.mark.parametrize(
    "error, status, text",
    [
        (NotFound("no <such> thing"), 404, "no <such> thing"),
        (BadRequest("error.bad_choice", name="order", choices="a, b"), 400, "order must be one of a, b."),
    ],
)
def test_an_error_has_the_same_text_for_people_and_programs(answered, error, status, text):
    shown = answered(raising(error))
    assert (shown.status, escape(text) in shown.body.decode()) == (status, True)
    assert json.loads(answered(raising(error), "application/json").body) == {"error": text, "status": status}


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


def test_values_are_escaped_and_missing_ones_are_errors():
    from jinja2 import UndefinedError

    assert environment().from_string("{{ x }}").render(x="<b>&\"'") == "&lt;b&gt;&amp;&#34;&#39;"
    with pytest.raises(UndefinedError):
        environment().from_string("{{ x.y }}").render(x={})


def test_no_template_disables_escaping():
    for file in Path(FOLDER).rglob("*.html"):
        text = file.read_text()
        assert "| safe" not in text, file
        assert "|safe" not in text, file
        assert "autoescape" not in text, file


class Tags(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_the_current_tab_is_marked(ask):
    page = ask("/fleet").body.decode()
    assert re.findall(r'<a href="([^"]*)" aria-current="page">', page) == ["/fleet"]


def test_links_have_the_mount_path(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}, app_url="https://shop.example.com/"))
    page = app.respond(Request("GET", "/fleet", root="/jobs", headers={"host": "localhost", "accept": "text/html"}))
    for tag, attributes in Tags(page.body.decode()).tags:
        for name in ("href", "src", "action"):
            address = attributes.get(name, "/jobs/")
            assert address.startswith(("/jobs/", "#", "https://shop.example.com/")), (tag, address)


def test_the_page_names_its_language_and_direction(ask):
    assert '<html lang="en" dir="ltr"' in ask("/", accept_language="ar").body.decode()
