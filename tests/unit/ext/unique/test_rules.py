"""What options mean, and which make no sense."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offsider.ext.unique.rules import UniqueRule, check_seconds, check_unique_until, concerns, rule_of, store_durations

RULES = [
    ({"unique_for": 60}, UniqueRule(60)),
    ({"unique_for": 0.5, "unique_until": "success"}, UniqueRule(0.5)),
    ({"unique_for": timedelta(minutes=1), "unique_until": "start"}, UniqueRule(60.0, at_start=True)),
    ({"unique_for": 60, "unique_until": None}, UniqueRule(60)),
    ({"unique_for": timedelta(days=30)}, UniqueRule(2_592_000.0)),
    ({"unique_for": False}, None),
    ({"unique_for": False, "unique_until": "until_executed"}, None),
    ({"unique_for": 60, "unique_until": "none"}, None),
    ({}, None),
    ({"including_scheduled": True, "reschedule_once": True}, None),
    ({"unique_until": "start"}, UniqueRule(600, at_start=True)),
    ({"unique_until": "until_executing"}, UniqueRule(600, at_start=True, scheduled=False)),
    ({"unique_until": "until_executed"}, UniqueRule(600, scheduled=False)),
    ({"unique_until": "until_executed", "unique_for": 5, "including_scheduled": True}, UniqueRule(5)),
    ({"unique_for": 5, "including_scheduled": False}, UniqueRule(5, scheduled=False)),
    ({"unique_until": "until_executed", "reschedule_once": True}, UniqueRule(600, scheduled=False, again=True)),
    ({"unique_for": False, "throttle": 5}, UniqueRule(5, kind="throttle")),
    ({"unique_until": "none", "debounce": 5}, UniqueRule(5, kind="debounce")),
]


@pytest.mark.parametrize("options, rule", RULES)
def test_options_make_a_rule(options, rule):
    assert rule_of(options, 600) == rule
    assert concerns(options) == (rule is not None)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"unique_for": 0}, "unique_for must be a positive"),
        ({"unique_for": -1}, "positive"),
        ({"unique_for": True}, "positive"),
        ({"unique_for": float("nan")}, "positive"),
        ({"unique_for": timedelta(days=30, seconds=1)}, "(up to 2,592,000)"),
        ({"unique_for": "60"}, "positive"),
        ({"unique_for": [60]}, "positive"),
        ({"unique_for": 60, "unique_until": "end"}, "unique_until must be one of success, start"),
        ({"unique_until": ["until_executed"]}, "unique_until must be one of"),
        ({"unique_until": "until_executed", "including_scheduled": 1}, "including_scheduled must be True or False"),
        ({"unique_for": 60, "reschedule_once": "yes"}, "reschedule_once must be True or False"),
        ({"unique_until": "until_executing", "reschedule_once": True}, "needs a lock until the end"),
    ],
)
def test_invalid_options_are_refused(options, message):
    assert concerns(options)
    with pytest.raises(ValueError, match=message):
        rule_of(options, 600)


def test_each_option_is_checked_by_itself_at_its_declaration():
    check_seconds(False)
    check_seconds(timedelta(hours=1))
    check_unique_until("start")
    for check, value in [(check_seconds, "soon"), (check_unique_until, 3)]:
        with pytest.raises(ValueError, match=str(value)):
            check(value)


def test_durations_are_stored_as_numbers():
    payload = {"unique_for": timedelta(seconds=90), "throttle": timedelta(seconds=0.5), "debounce": 5}
    store_durations(payload)
    assert payload == {"unique_for": 90, "throttle": 0.5, "debounce": 5}
