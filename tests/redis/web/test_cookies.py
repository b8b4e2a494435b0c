"""The result of an action is shown once, on the next page."""

from __future__ import annotations

import base64

import pytest

from offsider.web import flash
from tests.redis.web.stored import WHEN, failed, jid

DELETE = "/jobs/selected/delete"


@pytest.fixture
def done(ask, raw_redis):
    """done(language): deletes one job of two chosen ones, and gives the cookie's header."""

    def delete(**headers):
        raw_redis.zadd("dead", {failed(1): WHEN})
        body = f"key=dead+{WHEN}%7C{jid(1)}&key=dead+1%7Cgone&confirmed=yes&where=dead"
        answer = ask(DELETE, method="POST", body=body, **headers)
        assert answer.status == 303
        return dict(answer.headers)["set-cookie"]

    return delete


def cookie_of(header):
    return header.partition(";")[0]


def test_the_message_is_shown_once_on_the_next_page(ask, done):
    header = done()
    assert "; Path=/; Max-Age=30; SameSite=Strict; HttpOnly" in header
    page = ask("/jobs", "where=dead", cookie=cookie_of(header))
    assert (
        '<p class="notice done" role="status" dir="auto">Deleted 1 job. 1 job had already left.</p>'
        in page.body.decode()
    )
    assert dict(page.headers)["set-cookie"].startswith("offsider_flash=; Path=/; Max-Age=0;")
    after = ask("/jobs", "where=dead")
    assert b"notice done" not in after.body
    assert "set-cookie" not in dict(after.headers)


def test_a_refresh_by_the_script_keeps_the_message(ask, done):
    cookie = cookie_of(done())
    for more in ({"sec_fetch_dest": "empty"}, {"method": "HEAD"}, {"accept": "application/json"}):
        answer = ask("/jobs", "where=dead", cookie=cookie, **more)
        assert b"already left" not in answer.body
        assert "set-cookie" not in dict(answer.headers)
    assert b"already left" in ask("/jobs", "where=dead", cookie=cookie, sec_fetch_dest="document").body


@pytest.mark.parametrize("value", ["", "!", "ä", "/w==", base64.urlsafe_b64encode(b"\xff").decode(), "A"])
def test_an_invalid_cookie_shows_nothing(ask, value):
    assert b"notice done" not in ask("/fleet", cookie=f"{flash.COOKIE}={value}").body


def test_the_cookie_is_limited_and_escaped(ask):
    text = "<b>" + "x" * 5000
    page = ask("/fleet", cookie=f"{flash.COOKIE}={base64.urlsafe_b64encode(text.encode()).decode()}").body.decode()
    assert "&lt;b&gt;xxx" in page
    assert "x" * (flash.MAX_LETTERS + 1) not in page
