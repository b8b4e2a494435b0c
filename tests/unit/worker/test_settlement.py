"""The disposition of each outcome, as one table; failed runs have more rules, see `test_retrier`."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from offsider import Config
from offsider.core.errors import MalformedPayload
from offsider.core.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    NotStarted,
    Outcome,
    Rescheduled,
    Skipped,
    Succeeded,
)
from offsider.runtime.context import JobContext
from offsider.worker.disposition import Dead, Done, Later, Moved, Quarantined, RequeuedFirst, RequeuedLast
from offsider.worker.settle.settlement import Settlement
from offsider.worker.unit_of_work import Run, UnitOfWork

RAW = b'{"class":"Mail","args":[1],"queue":"low","jid":"abc","retry":3}'
OUTCOMES = {
    Succeeded(): Done(),
    Skipped("a reason"): Done(),
    NotStarted("gone", name="expired"): Done(),
    Rescheduled(5.0, "a reason"): Later("schedule", RAW, 5.0),
    NotStarted("schedule", 60.0, "a control", "deferred"): Later("schedule", RAW, 60.0),
    NotStarted("schedule", 30.0, "unknown class", "stranded", b"noted"): Later("schedule", b"noted", 30.0),
    NotStarted("queue", 0.0, "unknown class", "handed over"): RequeuedLast(),
    NotStarted("quarantine", reason="a control", name="dropped"): Quarantined("a control"),
    NotStarted("gone", reason="a control", name="dropped"): Done(),
    NotStarted("elsewhere", reason="held:Mail", name="moved"): Moved(),
    NotStarted("queue", name="not alone"): RequeuedLast(),
}


class NoFetcher:
    """Fails on any use: a decision sends no command."""


@pytest.fixture
def decide():
    settlement = Settlement(Config(), NoFetcher())

    def decide(outcome):
        payload = json.loads(RAW)
        job = None if isinstance(outcome, Malformed) else JobContext(payload, "low", RAW)
        return settlement.decide(UnitOfWork("low", RAW), Run(job, outcome, 0.0, 0.0, None))

    return decide


@pytest.mark.parametrize("outcome", OUTCOMES, ids=str)
def test_each_outcome_has_one_disposition(decide, outcome):
    assert decide(outcome) == OUTCOMES[outcome]


def test_an_interrupted_job_returns_to_the_head_with_a_count(decide):
    disposition = decide(Interrupted())
    assert isinstance(disposition, RequeuedFirst)
    assert json.loads(disposition.payload) == {**json.loads(RAW), "interrupted_count": 1}


def test_a_failed_job_waits_for_its_retry_and_a_discarded_one_leaves(decide):
    disposition = decide(Failed(ValueError("no")))
    assert isinstance(disposition, Later)
    assert (disposition.where, json.loads(disposition.payload)["retry_count"]) == ("retry", 0)
    disposition = decide(Discarded(ValueError("no")))
    assert isinstance(disposition, Done)
    assert disposition.died is not None


def test_a_malformed_payload_enters_the_dead_set(decide):
    disposition = decide(Malformed(MalformedPayload("not JSON", b"{")))
    assert isinstance(disposition, Dead)
    assert disposition.died is None


def test_a_rescheduled_job_that_counts_is_counted(decide):
    disposition = decide(Rescheduled(5.0, "limit", counted=True))
    assert isinstance(disposition, Later)
    assert json.loads(disposition.payload)["rescheduled_count"] == 1


def test_every_outcome_is_in_this_file():
    shown = {type(outcome) for outcome in OUTCOMES} | {Interrupted, Failed, Discarded, Malformed}
    assert shown == set(get_args(Outcome))
