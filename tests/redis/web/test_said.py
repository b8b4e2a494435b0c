"""What an action did is told once, on the page that follows."""

from __future__ import annotations

import base64

import pytest

from offsider.web import said
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


def test_the_next_page_tells_it_and_the_one_after_does_not(ask, done):
    header = done()
    assert "; Path=/; Max-Age=30; SameSite=Strict; HttpOnly" in header
    page = ask("/dead", cookie=cookie_of(header))
    assert '<p class="notice done" role="status" dir="auto">Deleted: 1; Gone meanwhile: 1</p>' in page.body.decode()
    assert dict(page.headers)["set-cookie"].startswith("offsider_said=; Path=/; Max-Age=0;")
    after = ask("/dead")
    assert b"notice done" not in after.body
    assert "set-cookie" not in dict(after.headers)


def test_it_is_told_in_the_language_of_the_visitor(ask, done):
    page = ask("/dead", cookie=cookie_of(done(accept_language="de"))).body.decode()
    assert "Gelöscht: 1; Inzwischen verschwunden: 1" in page


def test_a_page_that_a_script_fetches_leaves_it_for_the_one_that_a_person_opens(ask, done):
    cookie = cookie_of(done())
    for more in ({"sec_fetch_dest": "empty"}, {"method": "HEAD"}, {"accept": "application/json"}):
        answer = ask("/dead", cookie=cookie, **more)
        assert b"Gone meanwhile" not in answer.body
        assert "set-cookie" not in dict(answer.headers)
    assert b"Gone meanwhile" in ask("/dead", cookie=cookie, sec_fetch_dest="document").body


def test_no_address_puts_words_on_a_page(ask):
    for query in ("said=Hacked", "offsider_said=Hacked", "done=Hacked", "message=Hacked"):
        assert b"notice done" not in ask("/queues", query).body


@pytest.mark.parametrize("value", ["", "!", "ä", "/w==", base64.urlsafe_b64encode(b"\xff").decode(), "A"])
def test_a_cookie_that_is_none_of_ours_says_nothing(ask, value):
    assert b"notice done" not in ask("/queues", cookie=f"{said.COOKIE}={value}").body


def test_a_cookie_is_bounded_and_escaped(ask):
    text = "<b>" + "x" * 5000
    page = ask("/queues", cookie=f"{said.COOKIE}={base64.urlsafe_b64encode(text.encode()).decode()}").body.decode()
    assert "&lt;b&gt;xxx" in page
    assert "x" * (said.MOST_LETTERS + 1) not in page


def test_what_was_preferred_is_not_told(ask):
    answer = ask("/change_theme", method="POST", body="theme=dark&back=/")
    assert [value.partition("=")[0] for name, value in answer.headers if name == "set-cookie"] == ["offsider_theme"]
