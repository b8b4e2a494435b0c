"""Addresses in JSON can be asked for as they are."""

from __future__ import annotations

import pytest

from offsider.web.rendering import with_base

BASE = "/jobs/@b"


@pytest.mark.parametrize(
    "data,expected",
    [
        ({"path": "/busy"}, {"path": "/jobs/@b/busy"}),
        ({"remove_path": "/queues/a/all?x=1"}, {"remove_path": "/jobs/@b/queues/a/all?x=1"}),
        ({"actions": {"retry": "/retry"}}, {"actions": {"retry": "/jobs/@b/retry"}}),
        ({"jobs": [{"path": "/job/a"}]}, {"jobs": [{"path": "/jobs/@b/job/a"}]}),
        ({"pager": {"next": "/x?page=2", "previous": ""}}, {"pager": {"next": "/jobs/@b/x?page=2", "previous": ""}}),
        ({"search": None, "page": 3, "more": ""}, {"search": None, "page": 3, "more": ""}),
    ],
)
def test_paths_get_the_base_as_prefix(data, expected):
    assert with_base(BASE, data) == expected


def test_user_data_is_unchanged():
    for data in ({"fields": {"path": "/x"}}, {"values": {"text": "/x"}}, {"name": "/x"}, {"orders": ["/x"]}):
        assert with_base(BASE, data) == data


def test_without_a_base_nothing_changes():
    data = {"path": "/busy"}
    assert with_base("", data) is data
