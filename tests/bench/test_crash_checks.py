"""The checks of rows that kill workers detect each fault of batches, results and cancellations."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench.scoreboard import batches
from bench.scoreboard.batches import Call, Noted, Run
from bench.scoreboard.crash import label
from bench.scoreboard.crashes import Results, ran_although_cancelled
from bench.scoreboard.row import Report
from offsider import Client, Config
from offsider.config.installation import Installation
from offsider.ext import results
from offsider.ext.batches.status import make_status
from offsider.ext.batches.store import ADVANCE
from offsider.storage import working
from offsider.storage.effects import Effect, EffectCalls, joined

#: A batch with two members and a child that fails once, and a batch with a child whose job dies.
RUNS = [
    Run("good", "first", 1, "ran", 10),
    Run("good", "second", 1, "ran", 20),
    Run("child", "flaky", 1, "failed", 30),
    Run("child", "flaky", 2, "ran", 50),
    Run("bad", "third", 1, "ran", 20),
    Run("doomed", "mortal", 1, "died", 35),
    Run("doomed", "mortal", 1, "died", 40),
]
CALLS = [
    Call("good", "complete", 20, 0, 21),
    Call("child", "complete", 30, 0, 31),
    Call("child", "success", 50, 0, 52),
    Call("child", "success", 50, 1, 60),
    Call("good", "success", 60, 0, 61),
    Call("bad", "complete", 20, 0, 21),
    Call("doomed", "complete", 40, 0, 41),
    Call("doomed", "death", 40, 0, 41),
    Call("bad", "death", 40, 0, 41),
]


def status(bid, total, *, parent="", dies=False, **fields):
    end = {"death_at": "1"} if dies else {"success_at": "1"}
    data = {"data": '{"dies": true}' if dies else '{"dies": false}', "parent": parent, "total": str(total)}
    return make_status(bid, {**data, "complete_at": "1", **end, **fields}, [0] * 6)


FOUND = {
    "good": status("good", 2),
    "child": status("child", 1, parent="good"),
    "bad": status("bad", 1, dies=True),
    "doomed": status("doomed", 1, parent="bad", dies=True),
}


def missed(runs=RUNS, calls=CALLS, found=FOUND):
    report = Report("R17", "smoke", 1)
    batches.judge(report, Noted(list(runs), list(calls)), found, most_repeated=1)
    return [what.partition(" 0, got")[0] for what in report.missed]


def without(items, place):
    return [*items[:place], *items[place + 1 :]]


def changed(items, place, **values):
    return [*items[:place], items[place]._replace(**values), *items[place + 1 :]]


def test_batches_whose_jobs_and_callbacks_ran_in_time_pass():
    assert missed() == []


@pytest.mark.parametrize("place", range(len(CALLS)))
def test_each_callback_that_is_pushed_before_its_condition_holds_is_early(place):
    calls = changed(CALLS, place, pushed_ms=CALLS[place].pushed_ms - 1)
    assert "callbacks pushed too early" in missed(calls=calls)


@pytest.mark.parametrize("calls", [without(CALLS, 0), without(CALLS, 8)])
def test_a_callback_that_is_not_pushed_is_missed(calls):
    assert missed(calls=calls) == ["callbacks that were not pushed exactly once"]


@pytest.mark.parametrize(
    "more",
    [
        Call("good", "complete", 70, 1, 71),
        Call("good", "complete", 20, 0, 71),
        Call("bad", "success", 70, 0, 71),
        Call("deleted", "complete", 70, 0, 71),
    ],
)
def test_a_callback_that_is_pushed_twice_or_without_reason_is_missed(more):
    assert "callbacks that were not pushed exactly once" in missed(calls=[*CALLS, more])


def test_a_callback_that_runs_more_often_than_workers_died_is_missed():
    assert missed(calls=[*CALLS, Call("good", "complete", 20, 1, 30)]) == ["repeated runs of callbacks: 2 <= 1"]


def test_a_member_that_did_not_run_is_missed():
    assert "batches with members that did not run" in missed(runs=without(RUNS, 0))


@pytest.mark.parametrize(
    "found",
    [
        {},
        FOUND | {"good": replace(FOUND["good"], success_at=None)},
        FOUND | {"bad": replace(FOUND["bad"], death_at=None, success_at=1)},
        FOUND | {"child": replace(FOUND["child"], complete_at=None)},
        FOUND | {"child": replace(FOUND["child"], open_blocks=1)},
    ],
)
def test_a_batch_that_does_not_end_is_missed(found):
    assert any(what.startswith("batches that ended") for what in missed(found=found))


def test_a_job_that_begins_after_it_was_reported_as_cancelled_is_found():
    cancelled = [["first", "20"], ["second", "20"], ["second", "40"]]
    assert ran_although_cancelled(cancelled, [["first", "20"], ["other", "90"]]) == set()
    assert ran_although_cancelled(cancelled, [["first", "21"], ["second", "30"]]) == {"first", "second"}


@pytest.fixture
def pushed(redis_url, raw_redis):
    """Jobs that keep their result or are cancelled, as the row pushes them, and a client of their server."""
    config = Config()
    config.redis.url = redis_url
    config.use(results.Results())
    made = Results(Client(config), SimpleNamespace(raw=raw_redis))
    kept, _ = made.push()
    yield made, kept
    Installation.of(config).close()


def end(raw_redis, jid, state, **fields):
    raw_redis.hset(f"offsider:results:job:{jid}", mapping={"state": state, "ended": "1", **fields})


def judged(made, *, cancelled=(), began=()):
    report = Report("R17", "smoke", 1)
    notes = {"cancelled": cancelled, "began": began}
    made.judge(report, SimpleNamespace(notes=lambda table: notes[table]))
    return report.missed


def test_a_result_that_is_shown_while_its_job_is_stored_is_missed(pushed, raw_redis):
    made, kept = pushed
    for key in raw_redis.scan_iter("offsider:results:job:*"):
        end(raw_redis, key.decode().rpartition(":")[2], "cancelled")
    made.look()
    end(raw_redis, kept, "succeeded", result="0")
    assert judged(made) == []
    made.look()
    assert judged(made) == ["results before their acknowledgement 0, got 1"]
    end(raw_redis, kept, "succeeded", result="1")
    assert "wrong results 0, got 1" in judged(made)


def test_the_name_of_a_crash_point_has_the_effects_of_the_outcome():
    script, _, _ = joined(working.ACK_AND_CLAIM, [], [], EffectCalls([[Effect(ADVANCE, [])]]))
    request = f"*3\r\n$7\r\nEVALSHA\r\n$40\r\n{script.sha}\r\n$1\r\n0\r\n"
    assert label(request.encode()) == "ack_and_claim+advance"
    assert label(request.replace(script.sha, ADVANCE.sha).encode()) == "advance"
