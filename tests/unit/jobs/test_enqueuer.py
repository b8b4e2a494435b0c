"""Every way to enqueue, for jobs of both kinds."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from offsider import Client, Job, job
from offsider.config.config import Config
from offsider.core.errors import InvalidArguments, InvalidOptions


def test_an_enqueued_job_is_stored_with_its_arguments_by_position(declare, stored):
    jid = declare().enqueue(1, b=5, c=9)
    payload = stored[0].payload
    assert (payload["class"], payload["args"], payload["kwargs"], payload["jid"]) == ("add", [1, 5], {"c": 9}, jid)


#: Names of parameters in our own code, and `self`, which links in JSON have (HAL).
TAKEN = dict.fromkeys(["self", "cls", "args", "kwargs", "name", "queue", "jid", "job", "delay", "when", "at"], 1)


def hook(**payload: object) -> dict[str, object]:
    return payload


class Hook:
    def perform(self, /, **payload: object) -> dict[str, object]:
        return payload


@pytest.fixture(
    params=[lambda: job(name="hook")(hook), lambda: type("Hook", (Hook, Job), {})], ids=["function", "class"]
)
def takes_any(request):
    return request.param()


def test_keyword_arguments_may_have_any_name(takes_any, stored):
    takes_any.enqueue(**TAKEN)
    takes_any.enqueue_in(60, **TAKEN)
    takes_any.enqueue_at(4_102_444_800, **TAKEN)
    takes_any.using(queue="low").enqueue(**TAKEN)
    takes_any.enqueue_many([takes_any.call(**TAKEN)])
    asyncio.run(takes_any.aenqueue(**TAKEN))
    asyncio.run(takes_any.aenqueue_in(60, **TAKEN))
    asyncio.run(takes_any.aenqueue_at(4_102_444_800, **TAKEN))
    assert [prepared.payload["kwargs"] for prepared in stored] == [TAKEN] * 8
    assert takes_any.run_inline(**TAKEN) == TAKEN


def test_an_argument_that_perform_takes_for_its_object_is_refused(stored):
    class Links(Job):
        def perform(self, **payload: object) -> None: ...

    with pytest.raises(InvalidArguments, match=r"Links: 'self' .* declare perform\(self, /, \.\.\.\)"):
        Links.enqueue(**TAKEN)
    assert stored == []


def test_using_does_not_change_the_job(declare, stored):
    add = declare()
    add.using(queue="low")
    add.enqueue(1)
    assert stored[0].queue == "default"


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_a_delay_is_in_seconds_or_a_timedelta(declare, stored, config, delay):
    declare().enqueue_in(delay, 1)
    assert stored[0].at == pytest.approx(config.clock.now() + 60, abs=5)


def test_a_time_is_an_aware_datetime_or_epoch_seconds(declare, stored):
    add = declare()
    add.enqueue_at(datetime(2100, 1, 1, tzinfo=UTC), 1)
    add.enqueue_at(4_102_444_800, 1)
    assert [prepared.at for prepared in stored] == [4_102_444_800.0] * 2
    with pytest.raises(InvalidOptions, match="no time zone"):
        add.enqueue_at(datetime(2100, 1, 1), 1)  # noqa: DTZ001


def test_many_may_be_lazy_spread_and_timed(declare, stored):
    add = declare()
    add.enqueue_many((add.call(n) for n in range(3)), at=timedelta(hours=1), batch_size=2)
    add.enqueue_many([(1,), (2,)], at=[60, 120])
    add.enqueue_many([(1,), (2,)], spread_interval=10)
    assert len(stored) == 7
    assert all(prepared.at is not None for prepared in stored)
    with pytest.raises(InvalidOptions, match="1 for 2"):
        add.enqueue_many([(1,), (2,)], at=[60])


def test_arguments_that_do_not_fit_raise_when_enqueued(declare, stored):
    add = declare()
    for wrong in (
        add.enqueue,
        lambda: add.enqueue(1, 2, 3),
        lambda: add.enqueue_in(60, 1, d=5),
        add.call,
        lambda: add.enqueue_many([()]),
        lambda: add.run_inline(1, x=2),
    ):
        with pytest.raises(InvalidArguments, match=r"^add: .*the job is add\(a: int, b: int = 2, \*, c: int = 3\)"):
            wrong()
    assert stored == []


def test_arguments_that_are_not_json_are_reported_by_parameter_name(declare, stored):
    add = declare()
    with pytest.raises(InvalidArguments, match="add: the argument 'b' is an object"):
        add.enqueue(1, object())
    with pytest.raises(InvalidArguments, match="add: the argument 'c' is a tuple"):
        add.enqueue(1, c=(1, 2))
    assert stored == []


@pytest.mark.parametrize("calls", [None, 5, "ab", b"", {}], ids=repr)
def test_many_calls_must_be_an_iterable_of_calls(declare, stored, calls):
    add = declare()
    wanted = rf"^add: bulk arguments must be an iterable with a list for each job, got {type(calls).__name__}$"
    for push in (
        lambda: add.enqueue_many(calls),
        lambda: asyncio.run(add.aenqueue_many(calls)),
        lambda: Client(Config()).push_bulk({"class": add, "args": calls}),
    ):
        with pytest.raises(InvalidArguments, match=wanted):
            push()
    assert stored == []


class TestAsync:
    def test_every_enqueue_method_has_an_awaitable_version(self, declare, stored):
        add = declare()

        async def enqueue_all():
            return [
                await add.aenqueue(1),
                await add.aenqueue_in(60, 1),
                await add.aenqueue_at(4_102_444_800, 1),
                *await add.aenqueue_many([add.call(1), (2,)]),
                await add.using(queue="low").via(Client(Config())).aenqueue(1),
                await add.via(Client(Config())).aenqueue(1),
            ]

        assert asyncio.run(enqueue_all()) == [prepared.jid for prepared in stored]


class TestSidekiqNames:
    @pytest.mark.parametrize(
        "alias, name",
        [
            ("perform_async", "enqueue"),
            ("perform_in", "enqueue_in"),
            ("perform_at", "enqueue_at"),
            ("perform_bulk", "enqueue_many"),
            ("perform_inline", "run_inline"),
            ("perform_sync", "run_inline"),
            ("set", "using"),
        ],
    )
    def test_are_the_same_methods(self, declare, alias, name):
        add = declare()
        assert getattr(add, alias).__func__ is getattr(add, name).__func__


def test_a_missing_time_does_not_mean_now(declare, stored):
    add = declare()
    for enqueue in (add.enqueue_in, add.enqueue_at):
        with pytest.raises(
            InvalidOptions, match="add: a time must be seconds, a timedelta or an aware datetime, got None"
        ):
            enqueue(None, 1)
    assert stored == []
