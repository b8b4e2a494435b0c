"""What the controls mean for a job: the most specific one decides, and limits add up."""

from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.core.controls import Control
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.jobs import registry
from offsider.storage.slots import Rate, SlotGroup
from offsider.worker.run.control_rules import ControlRules


@pytest.fixture
def decide():
    """Return the decision about a job of `Hard` with these controls, as the action that stops it and its groups."""
    config = Config()
    config.use(ConcurrencyLimits())

    def decide(controls, *, key="", queue="default", name="Hard"):
        rules = ControlRules(config, None)
        rules._show({control.subject: control for control in controls})
        rule = rules.rule_of(name)
        if rule is None:
            return None
        decision = rules.decide(rule, queue, key)
        return (decision.stop and decision.stop.action), [*decision.groups]

    return decide


def declare(**options):
    job(name=("Hard", "Old"), urgency="low", tags=["export"], **options)(lambda account_id: None)


DROP, DEFER, HOLD = Control("Hard", "drop"), Control("urgency=low", "defer"), Control("*", "hold")
THREE = Control("Hard", "limit", limit=3)


@pytest.mark.parametrize(
    "controls, expected",
    [
        ([], None),
        ([Control("Other", "drop"), Control("urgency=high", "drop")], None),
        ([DROP], ("drop", [])),
        ([Control("Old", "drop")], ("drop", [])),
        ([DROP, HOLD, DEFER], ("drop", [])),
        ([DEFER, THREE], ("defer", [])),
        ([Control("Hard", "hold")], (None, [SlotGroup("Hard", -1)])),
        ([HOLD], (None, [SlotGroup("*", -1)])),
        ([Control("Hard", "hold"), DEFER], (None, [SlotGroup("Hard", -1)])),
        ([Control("Hard", "run"), HOLD, DEFER], (None, [])),
        ([THREE], (None, [SlotGroup("Hard", 3)])),
        (
            [THREE, Control("tags=export", "limit", limit=9), Control("queue=default", "limit", limit=7)],
            (None, [SlotGroup("Hard", 3), SlotGroup("tags=export", 9), SlotGroup("queue=default", 7)]),
        ),
        ([Control("queue=default", "hold")], None),
        ([Control("queue=default", "drop")], ("drop", [])),
        ([Control("queue=other", "drop")], (None, [])),
        ([Control("urgency=low", "run"), HOLD], (None, [])),
    ],
)
def test_the_most_specific_control_decides(decide, controls, expected):
    declare()
    assert decide(controls) == expected


def test_a_selector_matches_the_defaults_of_an_undeclared_class(decide):
    assert decide([DEFER], name="Foreign") == ("defer", [])
    assert decide([Control("worker_name=Foreign", "drop")], name="Foreign") == ("drop", [])


def test_limits_in_code_apply_to_each_key_and_controls_override_them(decide):
    declare(concurrency_limit=2, rate_limit="5/minute", key=lambda account_id: account_id)
    rate = Rate(5, 60_000)
    assert decide([], key="7") == (None, [SlotGroup("Hard[7]", 2, rate)])
    assert decide([THREE], key="7") == (None, [SlotGroup("Hard[7]", 3, rate)])
    assert decide([Control("Hard[7]", "limit", limit=1), THREE], key="7") == (None, [SlotGroup("Hard[7]", 1, rate)])
    assert decide([Control("Hard[7]", "limit", limit=1), Control("Hard", "hold")], key="7") == (
        None,
        [SlotGroup("Hard[7]", -1, rate)],
    )
    assert decide([Control("Hard[7]", "drop")], key="7") == ("drop", [])
    assert decide([Control("Old[7]", "drop")], key="7") == ("drop", [])
    assert decide([Control("Hard[7]", "drop")], key="8") == (None, [SlotGroup("Hard[8]", 2, rate)])
    assert decide([Control("Hard", "run")], key="7") == (None, [])
    assert decide([Control("Hard[7]", "limit", limit=1), Control("Hard", "run")], key="7") == (
        None,
        [SlotGroup("Hard[7]", 1, rate)],
    )


def test_limits_of_groups_for_resuming(decide):
    declare(concurrency_limit=2, key=lambda account_id: account_id)
    config = Config()
    config.use(ConcurrencyLimits())
    rules = ControlRules(config, None)
    rules._reported = {"Foreign": (4, Rate(1, 1000)), "Hard": (9, Rate())}
    assert rules.group("Hard[7]") == SlotGroup("Hard[7]", 2)
    assert rules.group("Foreign[7]") == SlotGroup("Foreign[7]", 4, Rate(1, 1000))
    assert rules.group("Unknown") == SlotGroup("Unknown", 0)
    assert rules.group("urgency=low") == SlotGroup("urgency=low", 0)
    on = [Control("urgency=low", "limit", limit=3), Control("queue=low", "drop"), Control("Hard", "drop"), HOLD]
    rules._show({control.subject: control for control in on})
    assert rules.group("urgency=low") == SlotGroup("urgency=low", 3)
    assert rules.group("*") == SlotGroup("*", -1)
    assert rules.group("queue=low") == SlotGroup("queue=low", 0)
    assert rules.group("Hard[7]") == SlotGroup("Hard[7]", 0), "its jobs are resumed, and dropped"


def test_a_limit_that_cannot_be_evaluated_is_reported_and_the_previous_one_applies(decide):
    answers = iter(["5/minute", "nonsense", None])
    declare(rate_limit=lambda: next(answers))
    config, reported = Config(), []
    config.use(ConcurrencyLimits())
    config.error_handlers.append(lambda error, context: reported.append(context["context"]))
    rules = ControlRules(config, None)
    limits = registry.peek("Hard")
    assert rules._evaluated(limits) == (0, Rate(5, 60_000))
    rules._in_code["Hard"] = (0, Rate(5, 60_000))
    assert rules._evaluated(limits) == (0, Rate(5, 60_000))
    assert reported == ["evaluating the limits of Hard"]
    assert rules._evaluated(limits) == (0, Rate())
    assert rules._evaluated(limits) == (0, Rate(5, 60_000)), "the function raises StopIteration"
