"""Errors in groups, as they are read."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.inspector import ErrorGroups
from offsider.storage import error_groups
from offsider.storage.error_groups import Noted

NOW = 1_800_000_000.0


@pytest.fixture
def groups(config) -> ErrorGroups:
    info = {"class": "Mails", "error_class": "ValueError", "message": "no", "queue": "default"}
    noted = [
        Noted("c0", 9, NOW, json.dumps(info), "j1"),
        Noted("1a", 1, NOW + 60, json.dumps({**info, "message": "late"}), "j2"),
        Noted("dd", 2, NOW - 60, "[]", "j3"),
        Noted("b0", 1, NOW - 90, "{", "j4"),
    ]
    error_groups.note(Installation.of(config).redis, noted)
    return ErrorGroups(config)


def test_groups_are_paged_in_either_order(groups):
    assert len(groups) == 4
    assert [group.id for group in groups.page()] == ["1a", "c0", "dd", "b0"]
    assert [group.id for group in groups.page(1, 2)] == ["c0", "dd"]
    assert [group.id for group in groups.page(0, 2, order="count")] == ["c0", "dd"]


def test_a_group_shows_the_common_fields_of_its_errors(groups):
    group = groups.find("c0")
    assert group is not None
    assert (group.name, group.error_class, group.message, group.queue) == ("Mails", "ValueError", "no", "default")
    assert (group.count, group.last_jid, group.first_at, group.last_at) == (9, "j1", NOW, NOW)
    assert group.recent == {int(NOW // 3600 * 3600): 9}
    assert groups.find("nobody") is None


def test_a_group_of_others_is_shown_as_far_as_it_can_be_read(groups):
    for odd in ("dd", "b0"):
        group = groups.find(odd)
        assert group is not None
        assert (group.name, group.message) == ("", "")


def test_groups_are_forgotten(groups):
    assert groups.delete("c0")
    assert not groups.delete("c0")
    assert groups.clear() == 3
    assert groups.page() == []
