"""The result of an action is shown once, on the next page."""

from __future__ import annotations

import base64

import pytest

from offsider.web import flash
from tests.redis.web.stored import WHEN, failed, jid

DELETE = "/dead/selected/delete"


@pytest.fixture
def done(ask, raw_redis):
    """done(language): deletes one job of two chosen ones, and gives the cookie's header."""

    def delete(**headers):
        raw_redis.zadd("dead", {failed(1): WHEN})
        body = f"key={WHEN}%7C{jid(1)}&key=1%7Cgone&confirmed=yes"
        answer = ask(DELETE, method="POST", body=body, **headers)
        assert answer.status == 303
        return dict(answer.headers)["set-cookie"]

    return delete


def cookie_of(header):
    return header.partition(";")[0]


def test_the_message_is_shown_once_on_the_next_page(ask, done):
    header = done()
    assert "; Path=/; Max-Age=30; SameSite=Strict; HttpOnly" in header
    page = ask("/dead", cookie=cookie_of(header))
    assert (
        '<p class="notice done" role="status" dir="auto">Deleted 1 job. 1 job was already gone.</p>'
        in page.body.decode()
    )
    assert dict(page.headers)["set-cookie"].startswith("offsider_flash=; Path=/; Max-Age=0;")
    after = ask("/dead")
    assert b"notice done" not in after.body
    assert "set-cookie" not in dict(after.headers)


def test_a_refresh_by_the_script_keeps_the_message(ask, done):
    cookie = cookie_of(done())
    for more in ({"sec_fetch_dest": "empty"}, {"method": "HEAD"}, {"accept": "application/json"}):
        answer = ask("/dead", cookie=cookie, **more)
        assert b"already gone" not in answer.body
        assert "set-cookie" not in dict(answer.headers)
    assert b"already gone" in ask("/dead", cookie=cookie, sec_fetch_dest="document").body


def test_a_query_cannot_set_the_message(ask):
    for query in ("said=Hacked", "offsider_flash=Hacked", "done=Hacked", "message=Hacked"):
        assert b"notice done" not in ask("/queues", query).body


@pytest.mark.parametrize("value", ["", "!", "ä", "/w==", base64.urlsafe_b64encode(b"\xff").decode(), "A"])
def test_an_invalid_cookie_shows_nothing(ask, value):
    assert b"notice done" not in ask("/queues", cookie=f"{flash.COOKIE}={value}").body


def test_the_cookie_is_limited_and_escaped(ask):
    text = "<b>" + "x" * 5000
    page = ask("/queues", cookie=f"{flash.COOKIE}={base64.urlsafe_b64encode(text.encode()).decode()}").body.decode()
    assert "&lt;b&gt;xxx" in page
    assert "x" * (flash.MAX_LETTERS + 1) not in page


def test_changing_a_preference_shows_no_message(ask):
    answer = ask("/change_theme", method="POST", body="theme=dark&back=/")
    assert [value.partition("=")[0] for name, value in answer.headers if name == "set-cookie"] == ["offsider_theme"]
