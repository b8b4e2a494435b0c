"""Filters and pages of lists as addresses."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest

from offsider.inspector import JobFilter, JobRecord
from offsider.web.filters import address, facets, fields_of, filter_data, pager


def fields(link):
    return dict(parse_qsl(link.partition("?")[2]))


def test_an_address_omits_empty_fields():
    assert address("/queues/a", order="", page=2, text="a b&c") == "/queues/a?page=2&text=a+b%26c"
    assert address("/queues/a", order="") == "/queues/a"


def test_characters_that_cannot_be_encoded_are_replaced():
    assert address("/retries", tag="\ud800") == "/retries?tag=%3F"


def test_a_filter_has_its_fields_and_an_address_without_each():
    wanted = JobFilter(name="Send", older_than_seconds=3600)
    assert fields_of(wanted) == {"name": "Send", "older": 3600}
    data = filter_data("/retries", wanted, order="latest")
    assert fields(data["path"]) == {"name": "Send", "older": "3600", "order": "latest"}
    assert fields(data["without"]["older"]) == {"name": "Send", "order": "latest"}
    assert data["values"]["older"] == 3600
    assert data["values"]["tag"] == ""
    assert filter_data("/retries", JobFilter())["empty"]


@pytest.mark.parametrize(
    "page, total, shown",
    [
        (1, 0, (0, 0, 1)),
        (1, 25, (1, 25, 1)),
        (2, 26, (26, 26, 2)),
        (3, 26, (0, 0, 2)),
        (40_000, 10**6, (999_976, 10**6, 40_000)),
    ],
)
def test_a_page_of_a_list_has_the_positions_of_its_jobs(page, total, shown):
    data = pager("/dead", page, total)
    assert (data["first"], data["last"], data["pages"]) == shown


def test_pages_link_to_previous_next_first_and_last():
    data = pager("/dead", 2, 100, order="latest")
    pages = {name: fields(data[name]).get("page") for name in ("start", "previous", "next", "end")}
    assert pages == {"start": "1", "previous": "1", "next": "3", "end": "4"}
    assert fields(data["next"])["order"] == "latest"
    assert [pager("/dead", 1, 10)[name] for name in ("start", "previous", "next", "end")] == [""] * 4
    # After the last page, for example when jobs were removed: the previous page is offered.
    assert fields(pager("/dead", 9, 50)["previous"]) == {"page": "2"}


def plainly(name, args, kwargs):
    return args, kwargs


def record(**more):
    return JobRecord(json.dumps({"class": "Send", "args": []} | more).encode())


def test_facets_count_common_values_and_omit_filtered_ones():
    records = [
        record(tags=["a", "a"]),
        record(tags=["b"]),
        record(tags=["b"]),
        record(error_class="E" * 101),
        JobRecord(b""),
    ]
    found = {
        each["field"]: [(v["value"], v["count"]) for v in each["values"]]
        for each in facets(records, plainly, "/x", JobFilter())
    }
    assert found == {"name": [("Send", 4)], "error": [], "tag": [("b", 2), ("a", 1)], "caller": []}
    (names, *_) = facets(records, plainly, "/x", JobFilter(name="Send"))
    assert names["values"] == []


def test_a_facet_adds_to_the_filter_and_has_at_most_six_values():
    records = [record(tags=[f"t{number}"]) for number in range(9)]
    tags = next(each for each in facets(records, plainly, "/x", JobFilter(name="Send")) if each["field"] == "tag")
    assert len(tags["values"]) == 6
    assert fields(tags["values"][0]["path"]) == {"name": "Send", "tag": "t0"}
