"""Errors in groups, as they are read."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.inspector import ErrorGroups
from tests.redis.errors import failed_run, note_as

NOW = 1_800_000_000.0


@pytest.fixture
def groups(config) -> ErrorGroups:
    redis = Installation.of(config).redis
    note_as(redis, "c0", *[failed_run(NOW)] * 2, *[failed_run(NOW, is_first=False)] * 7)
    note_as(redis, "1a", failed_run(NOW + 60, "late"))
    note_as(redis, "dd", *[failed_run(NOW - 60)] * 3)
    return ErrorGroups(config)


def test_groups_are_paged_in_either_order(groups):
    assert len(groups) == 3
    assert [group.id for group in groups.page()] == ["1a", "c0", "dd"]
    assert [group.id for group in groups.page(1, 2)] == ["c0", "dd"]
    assert [group.id for group in groups.page(0, 2, order="jobs")] == ["dd", "c0"]


def test_a_group_is_found_by_its_id_with_its_minutes(groups):
    group = groups.find("c0")
    assert group is not None
    assert (group.name, group.attempts, group.jobs) == ("Mail", 9, 2)
    assert [(minute.at, minute.attempts, minute.jobs) for minute in groups.minutes("c0", NOW, NOW)] == [(NOW, 9, 2)]
    assert sorted(minute.group for minute in groups.minutes_of_all(NOW - 60, NOW + 60)) == ["1a", "c0", "dd"]
    assert groups.find("nobody") is None


def test_a_group_is_resolved_and_reopened(groups, config):
    assert groups.resolve("c0")
    found = groups.find("c0")
    assert found is not None
    assert abs(found.resolved_at - config.clock.now()) < 60
    assert groups.reopen("c0")
    assert not groups.resolve("nobody")


def test_a_group_is_muted_until_a_time_or_until_it_is_reopened(groups):
    assert groups.mute("c0", NOW + 3_600)
    assert groups.find("c0").muted_until == NOW + 3_600
    assert groups.reopen("c0")
    assert not groups.find("c0").muted_until
    assert not groups.reopen("c0")
    assert not groups.mute("nobody", NOW)
    assert groups.find("nobody") is None


def test_groups_of_a_class_are_those_that_were_seen_since(groups):
    assert [group.id for group in groups.of_class("Mail", NOW)] == ["1a", "c0"]
    assert groups.of_class("Other", NOW) == []
    assert groups.of_class("Mail", NOW + 3_600) == []


def test_groups_are_forgotten(groups):
    assert groups.delete("c0")
    assert not groups.delete("c0")
    assert groups.clear() == 2
    assert groups.page() == []
