"""Workflows and results in the modes without a server."""

from __future__ import annotations

import pytest

from offsider import Config, Discard, JobFailed, NoResult, Skip, job, testing
from offsider.config.default import set_default_config
from offsider.ext.batches import RESULT, Batches, Workflow, chain, chord, group
from offsider.ext.results import Results
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def config():
    config = Config()
    config.redis.url = "redis://127.0.0.1:1"  # no server is needed
    config.use(Batches())
    config.use(Results(keep_result=60))
    previous = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(previous)


@pytest.fixture
def add():
    @job(name="add")
    def add(first: int, second: int) -> int:
        return first + second

    return add


@pytest.fixture
def total():
    @job(name="total", queue="low")
    async def total(numbers: list[int], *, currency: str = "EUR") -> str:
        return f"{sum(numbers)} {currency}"

    return total


def test_an_inline_workflow_runs_to_its_end_and_has_results(add, total):
    with testing.inline():
        steps = group(add.call(number, 1) for number in range(3))
        assert chord(steps, total.call(RESULT, currency="USD")).enqueue().result(timeout=1) == "6 USD"
        assert [jid.result() for jid in group(add.call(1, 2), add.call(3, 4)).enqueue()] == [3, 7]
        flow = Workflow()
        flow.step("end", total.call(RESULT), after=["left", "right"])
        flow.step("right", add.call(RESULT, 10), after=["start"]).step("left", add.call(RESULT, 1), after=["start"])
        ids = flow.step("start", add.call(1, 1)).enqueue()
        assert {name: jid.result() for name, jid in ids.items()} == {
            "start": 2,
            "left": 3,
            "right": 12,
            "end": "15 EUR",
        }


def test_a_long_inline_chain_needs_no_deep_stack(add):
    with testing.inline():
        assert chain(add.call(0, 1), *(add.call(RESULT, 1) for _ in range(1_000))).enqueue().result() == 1_001


def test_steps_of_a_workflow_are_asserted_and_drained_as_they_are_pushed(add, total):
    with testing.fake() as pushed:
        last = chain(group(add.call(1, 2), add.call(3, 4)), total.call(RESULT)).enqueue()
        pushed.assert_enqueued(add, 3, 4)
        assert len(pushed) == 2
        assert last.status() == "queued"
        with pytest.raises(NoResult, match=r"\(total\) has not run: in fake mode, drain\(\) runs it"):
            last.result()
        with pytest.raises(AssertionError, match=r"when the steps before it have run: call drain\(\) first"):
            pushed.assert_enqueued(total)
        assert pushed.drain(add) == 2
        pushed.assert_enqueued(total, [3, 7], queue="low")
        assert pushed.perform_one(total) == "10 EUR"
        assert (last.status(), last.result(), last.info().name) == ("succeeded", "10 EUR", "total")


def test_states_of_jobs_in_fake_mode(add):
    @job(name="fails")
    def fails(how: str) -> None:
        raise {"skip": Skip, "discard": Discard}.get(how, ValueError)(how)

    with testing.fake() as pushed:
        ids = add.enqueue_many([(1, 1), (2, 2)])
        later = add.enqueue_in(60, 1, 1)
        skipped, discarded = fails.enqueue("skip"), fails.enqueue("discard")
        failed = fails.enqueue("error")
        untracked = add.using(keep_result=False).enqueue(1, 1)
        assert [each.status() for each in (*ids, later, untracked)] == ["queued", "queued", "scheduled", "untracked"]
        with pytest.raises(ValueError, match="error"):
            pushed.drain()
        assert [each.result() for each in (*ids, later, skipped)] == [2, 4, 2, None]
        assert discarded.status() == "discarded"
        with pytest.raises(JobFailed, match="ValueError: error"):
            failed.result()
        assert failed.info().failures[0].error_class == "ValueError"
        pushed.drain()
        with pytest.raises(NoResult, match="is not tracked"):
            untracked.result()


def test_a_step_after_one_without_a_result_is_not_pushed(add, config):
    reported = []
    config.error_handlers.append(lambda error, context: reported.append(str(error)))

    @job(name="skips")
    def skips() -> int:
        raise Skip

    @job(name="odd")
    def odd() -> object:
        return {1, 2}

    with testing.fake() as pushed:
        chain(skips.call(), add.call(RESULT, 1)).enqueue()
        chain(odd.call(), add.call(RESULT, 1)).enqueue()
        assert pushed.drain() == 2
        assert len(pushed) == 0
    assert any("odd: its result cannot be an argument of the next step" in text for text in reported)


def test_results_end_with_the_mode(add):
    with testing.inline():
        jid = add.enqueue(1, 2)
        with testing.fake():
            assert jid.result() == 3
        assert jid.result() == 3
    with testing.fake():
        assert jid.status() == "untracked"
