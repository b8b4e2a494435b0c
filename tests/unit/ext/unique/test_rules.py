"""What options mean, and which make no sense."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offsider.ext.unique.rules import (
    Rule,
    check_deduplicate,
    check_seconds,
    check_unique_until,
    concerns,
    rule_of,
    store_durations,
)

RULES = [
    ({"unique_for": 60}, Rule(60)),
    ({"unique_for": 0.5, "unique_until": "success"}, Rule(0.5)),
    ({"unique_for": timedelta(minutes=1), "unique_until": "start"}, Rule(60.0, at_start=True)),
    ({"unique_for": 60, "unique_until": None}, Rule(60)),
    ({"unique_for": False}, None),
    ({"unique_for": False, "deduplicate": "until_executed"}, None),
    ({"unique_for": None, "deduplicate": "none"}, None),
    ({"unique_for": 60, "deduplicate": "none"}, Rule(60)),
    ({}, None),
    ({"deduplicate": "until_executing"}, Rule(600, at_start=True, scheduled=False)),
    ({"deduplicate": "until_executed"}, Rule(600, scheduled=False)),
    ({"deduplicate": {"strategy": "none"}}, None),
    ({"deduplicate": {"strategy": "until_executed", "ttl": 5, "including_scheduled": True}}, Rule(5)),
    (
        {"deduplicate": {"strategy": "until_executed", "if_deduplicated": "reschedule_once"}},
        Rule(600, scheduled=False, again=True),
    ),
]


@pytest.mark.parametrize("options, rule", RULES)
def test_options_make_a_rule(options, rule):
    assert rule_of(options, 600) == rule


@pytest.mark.parametrize(
    "options, message",
    [
        ({"unique_for": 0}, "positive"),
        ({"unique_for": -1}, "positive"),
        ({"unique_for": True}, "positive"),
        ({"unique_for": float("nan")}, "positive"),
        ({"unique_for": 1e10}, "positive"),
        ({"unique_for": "60"}, "positive"),
        ({"unique_for": [60]}, "positive"),
        ({"unique_for": 60, "unique_until": "end"}, "unique_until"),
        ({"unique_for": 60, "deduplicate": "until_executed"}, "exclude each other"),
        ({"deduplicate": "until_expired"}, "until_expired"),
        ({"deduplicate": ["until_executed"]}, "strategy or a mapping"),
        ({"deduplicate": {"ttl": 5}}, "strategy"),
        ({"deduplicate": {"strategy": "until_executed", "ttl": 0}}, "positive"),
        ({"deduplicate": {"strategy": "until_executed", "tll": 5}}, "tll"),
        ({"deduplicate": {"strategy": "until_executed", "including_scheduled": 1}}, "including_scheduled"),
        ({"deduplicate": {"strategy": "until_executed", "if_deduplicated": "run"}}, "reschedule_once"),
        (
            {"deduplicate": {"strategy": "until_executing", "if_deduplicated": "reschedule_once"}},
            "only with until_executed",
        ),
    ],
)
def test_invalid_options_are_refused(options, message):
    assert concerns(options)
    with pytest.raises(ValueError, match=message):
        rule_of(options, 600)


@pytest.mark.parametrize(
    "options", [{}, {"unique_for": False}, {"deduplicate": "none"}, {"unique_for": None, "deduplicate": None}]
)
def test_concerns_detects_jobs_without_a_lock(options):
    assert not concerns(options)


def test_each_option_is_checked_by_itself_at_its_declaration():
    check_seconds(False)
    check_seconds(timedelta(hours=1))
    check_unique_until("start")
    check_deduplicate("none")
    for check, value in [(check_seconds, "soon"), (check_unique_until, 3), (check_deduplicate, "always")]:
        with pytest.raises(ValueError, match=str(value)):
            check(value)


def test_durations_are_stored_as_numbers():
    payload = {"unique_for": timedelta(seconds=90), "deduplicate": {"ttl": timedelta(seconds=0.5), "strategy": "none"}}
    store_durations(payload)
    assert payload == {"unique_for": 90, "deduplicate": {"ttl": 0.5, "strategy": "none"}}
    plain = {"unique_for": 5, "deduplicate": {"ttl": 7}}
    store_durations(plain)
    assert plain == {"unique_for": 5, "deduplicate": {"ttl": 7}}
