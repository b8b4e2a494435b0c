"""The page of the callers that fill a queue."""

from __future__ import annotations

import json

import pytest

from tests.markup import Markup


@pytest.fixture
def pushed(raw_redis):
    """pushed("low", "Mail", caller="GET /orders", count=3)"""

    def push(queue, name, *, caller=None, count=1):
        payload = {"class": name, "args": [], "queue": queue, "created_at": 0, "enqueued_at": 0}
        payload |= {"meta.caller_id": caller} if caller else {}
        raw_redis.sadd("queues", queue)
        raw_redis.lpush(f"queue:{queue}", *(json.dumps(payload | {"jid": f"{at:024x}"}) for at in range(count)))

    return push


def counted(rows):
    return [(row["value"], row["count"]) for row in rows]


def test_jobs_are_counted_by_caller_and_by_class(pushed, read):
    pushed("low", "Mail", caller="GET /orders", count=3)
    pushed("low", "Import", caller="Nightly", count=2)
    pushed("low", "Mail")
    data = read("/callers/low")
    assert counted(data["by_caller"]) == [("GET /orders", 3), ("Nightly", 2), ("", 1)]
    assert counted(data["by_class"]) == [("Mail", 4), ("Import", 2)]
    assert (data["sampled"], data["total"]) == (6, 6)


def test_each_row_links_to_its_jobs_except_unknown_callers(pushed, read):
    pushed("low", "Mail", caller="GET /orders")
    pushed("low", "Mail")
    data = read("/callers/low")
    assert {row["path"] for row in data["by_caller"]} == {"/queues/low?caller=GET+%2Forders", ""}
    assert [row["path"] for row in data["by_class"]] == ["/queues/low?name=Mail"]


def test_without_a_name_the_longest_queue_is_shown(pushed, read):
    pushed("low", "Mail")
    pushed("high", "Mail", count=2)
    data = read("/callers")
    assert data["name"] == "high"
    assert [(queue["name"], queue["size"], queue["current"]) for queue in data["queues"]] == [
        ("high", 2, True),
        ("low", 1, False),
    ]


def test_the_sample_size_is_shown(pushed, read, ask):
    pushed("low", "Mail", caller="Nightly", count=1200)
    data = read("/callers/low")
    # A slow machine ends its sample earlier.
    assert 0 < data["sampled"] <= 1000
    assert data["total"] == 1200
    assert " of 1,200 jobs." in Markup(ask("/callers/low").body.decode()).text
    assert read("/callers/low", "most=10000")["sampled"] > 0


def test_an_empty_server_has_a_page_too(ask):
    for path in ("/callers", "/callers/low"):
        assert "This queue is empty." in Markup(ask(path).body.decode()).text


def test_other_sample_sizes_are_refused(ask):
    assert ask("/callers/low", "most=1000000").status == 400


def test_the_number_of_rows_is_limited(pushed, read):
    for number in range(40):
        pushed("low", f"Job{number}")
    assert len(read("/callers/low")["by_class"]) == 25
