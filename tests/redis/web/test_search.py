"""Searching everything from one page."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.markup import Markup
from tests.redis.web.stored import WHEN, failed, jid, job, push


@pytest.fixture
def everywhere(raw_redis):
    push(raw_redis, "mail", job(1), job(2))
    raw_redis.zadd("retry", {failed(3): WHEN})
    raw_redis.zadd("schedule", {job(4): WHEN})
    raw_redis.zadd("dead", {failed(5, **{"class": "Other"}): WHEN})


@pytest.mark.parametrize(
    "text, places",
    [
        (jid(4), {"schedule"}),
        ("Shop::Send", {"queue:mail", "retry", "schedule"}),
        ("user5@example.com", {"dead"}),
        ("IOError", {"retry", "dead"}),
        ("nothing like it", set()),
    ],
)
def test_search_finds_ids_classes_arguments_and_errors_everywhere(read, look, everywhere, text, places):
    data = look("/search", urlencode({"q": text}))
    assert {row["where"] for row in data["jobs"]} == places
    assert data["search"]["scanned"] == data["search"]["total"] == 5
    for row in data["jobs"]:
        assert read(row["path"])["jid"] == row["jid"]


def test_the_page_shows_the_progress_of_the_scan(ask, everywhere):
    words = Markup(ask("/search", "q=Shop").body.decode()).text
    assert "Scanned everything." in words or "of 5." in words


def test_without_a_text_there_is_no_search(read, everywhere):
    data = read("/search", "q=+")
    assert (data["jobs"], data["search"]) == ([], None)


def test_a_long_search_continues_in_steps(ask, read, raw_redis):
    raw_redis.zadd("retry", {failed(number): WHEN for number in range(1_500)})
    push(raw_redis, "mail", *(job(number) for number in range(2_000, 3_500)))
    path, query, found, parts = "/search", "q=Shop%3A%3ASend", set(), 0
    while query:
        data = read(path, query)
        found.update(row["jid"] for row in data["jobs"])
        if parts == 0:  # the first part never reaches the end, however quick the machine is
            assert "data-go-on" in ask(path, query).body.decode()
        path, _, query = data["search"]["more"].partition("?")
        parts += 1
    assert len(found) == 3_000
    assert parts > 1
    assert data["search"]["scanned"] == data["search"]["total"] == 3_000


@pytest.mark.parametrize("query", ["q=" + "x" * 101, "q=x&cursor=" + "y" * 501, "q=x&seen=-1"])
def test_parameters_out_of_bounds_are_refused(ask, query):
    assert ask("/search", query).status == 400


def test_an_invalid_cursor_starts_from_the_beginning(look, everywhere):
    assert len(look("/search", "q=Shop&cursor=queue%3Anone%7Cx")["jobs"]) <= 4
    assert len(look("/search", "q=Shop&cursor=nonsense")["jobs"]) == 4
