"""Useless rules and unserved queues are found, and good rules pass."""

import pytest

from offsider import job
from offsider.config.routing import Rules
from offsider.fleet.rules import check_rules
from offsider.jobs import registry


@pytest.fixture
def jobs(nothing_declared):
    for name, declaration in {
        "send": {"urgency": "high", "tags": ["mail"]},
        "resize": {"resource_boundary": "cpu"},
        "report": {},
    }.items():

        @job(name=name, **declaration)
        def declared(): ...

        declared.declared.qualname = name
    return registry.all_jobs()


def found(jobs, *pairs, served=("*",), on="main"):
    return check_rules(Rules.read(list(pairs)), jobs, {"queue": "default"}, {on: served})


def test_good_rules_are_left_alone(jobs):
    rules = [["urgency=high", "urgent"], ["resource_boundary=cpu", "cpu"], ["*", "default"]]
    assert found(jobs, *rules) == []
    assert found(jobs, *rules, served=["urgent", "cpu", "default", "more"]) == []


def test_without_rules_only_queues_are_checked(jobs):
    assert found(jobs, served=["default"]) == []
    assert found(jobs, served=["other"]) == ["no worker serves default, where report, resize, send would wait"]


def test_a_rule_after_a_catch_all_never_wins(jobs):
    assert found(jobs, [" * ", "default"], ["urgency=high", "urgent"]) == [
        "rule 2 (urgency=high → urgent) never applies: rule 1 selects all of its jobs before it"
    ]


def test_a_duplicate_rule_never_wins(jobs):
    assert found(jobs, ["urgency=high", "a"], ["tags=mail", "b"], ["urgency=high ", "c"], ["*", "d"]) == [
        "rule 2 (tags=mail → b) never applies: rules before it select all of its 1 job",
        "rule 3 (urgency=high → c) never applies: rule 1 selects all of its jobs before it",
    ]


def test_a_rule_that_chooses_nothing_never_wins(jobs):
    assert found(jobs, ["tags=slow", "slow"], ["*", "default"]) == [
        "rule 1 (tags=slow → slow) never applies: it selects none of 3 jobs"
    ]


def test_an_impossible_value_is_reported(jobs):
    reported = found(jobs, ["urgency=hihg,high", "urgent"], ["has_external_dependencies!=yes&tags!=x", "d"])
    assert reported[0] == "rule 1 (urgency=hihg,high → urgent): no job has urgency=hihg; there are high, low, throttled"
    assert reported[1].endswith(": no job has has_external_dependencies=yes; there are true, false")


def test_unserved_queues_are_reported_with_their_jobs(jobs):
    for number in range(5):

        @job(name=f"more{number}", urgency="high")
        def declared(): ...

        declared.declared.qualname = declared.declared.name
    rules = [["urgency=high", "urgent"], ["*", ""]]
    assert found(registry.all_jobs(), *rules, served=["report"]) == [
        "no worker serves resize, where resize would wait",
        "no worker serves urgent, where more0, more1, more2, more3, more4 and 1 more would wait",
    ]


def test_a_queue_with_that_name_on_another_server_does_not_count(jobs):
    rules = [["urgency=high", "urgent", "fast"], ["*", "default"]]
    assert found(jobs, *rules) == ["no worker serves urgent of the server fast, where send would wait"]
    assert found(jobs, *rules, on="fast") == ["no worker serves default, where report, resize would wait"]


def test_a_last_rule_for_every_job_may_wait_for_the_jobs_of_tomorrow(jobs):
    rules = [["urgency=high", "a"], ["resource_boundary=cpu", "b"], ["urgency=low", "c"]]
    assert found(jobs, *rules, ["*", "default"]) == []
    assert found(jobs, *rules, ["*", "default"], ["tags=old", "d"])[:1] == [
        "rule 4 (* → default) never applies: rules before it select all of its 3 jobs"
    ]
    assert found(jobs, ["*", "a"], ["*", "b"]) == [
        "rule 2 (* → b) never applies: rule 1 selects all of its jobs before it"
    ]
