"""Declared jobs: functions and classes, options, clients, aliases."""

import asyncio
import gc
import weakref
from datetime import UTC, datetime, timedelta

import pytest

from offsider import AsyncClient, Client, Job, job
from offsider.core.errors import InvalidArguments, InvalidOptions, NoCurrentJob
from offsider.job import registry
from offsider.wiring import sinks
from offsider.wiring.config import Config
from offsider.wiring.context import JobContext, in_capsule, running


def make_function(**declaration):
    @job(name="add", **declaration)
    def add(a: int, b: int = 2, *, c: int = 3) -> int:
        """Add three numbers."""
        return a + b + c

    return add


def make_class(**declaration):
    class Add(Job, name="add", **declaration):
        def perform(self, a: int, b: int = 2, *, c: int = 3) -> int:
            return a + b + c

    return Add


@pytest.fixture(params=[make_function, make_class], ids=["function", "class"])
def declare(request):
    return request.param


def test_a_job_function_is_still_a_function():
    add = make_function()
    assert add(1, c=5) == 8
    assert add.__doc__ == "Add three numbers."
    assert add.__name__ == "add"
    assert repr(add) == "<job add>"


def test_an_enqueued_job_is_stored_with_its_arguments_by_position(declare, stored):
    jid = declare().enqueue(1, b=5, c=9)
    payload = stored[0].payload
    assert (payload["class"], payload["args"], payload["kwargs"], payload["jid"]) == ("add", [1, 5], {"c": 9}, jid)


def test_a_job_without_keyword_only_arguments_has_no_kwargs(declare, stored):
    declare().enqueue(1)
    assert "kwargs" not in stored[0].payload


def test_declared_options_lie_below_those_of_using(declare, config, stored):
    config.jobs["queue"] = "lowest"
    add = declare(queue="declared", retry=0, tags=["a"])
    add.enqueue(1)
    add.using(queue="asked").enqueue(1)
    add.using(queue="first").using(retry_for=timedelta(minutes=1)).enqueue(1)
    assert [prepared.queue for prepared in stored] == ["declared", "asked", "first"]
    assert [prepared.payload["retry"] for prepared in stored] == [0, 0, True]
    assert stored[2].payload["retry_for"] == 60
    assert all(prepared.payload["tags"] == ["a"] for prepared in stored)


def test_zero_and_false_are_not_the_same_retry(declare, stored):
    declare(retry=0).enqueue(1)
    declare(retry=False).enqueue(1)
    assert [prepared.payload["retry"] is False for prepared in stored] == [False, True]


def test_using_does_not_change_the_job(declare, stored):
    add = declare()
    add.using(queue="low")
    add.enqueue(1)
    assert stored[0].queue == "default"


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_a_delay_is_in_seconds_or_a_timedelta(declare, stored, config, delay):
    declare().enqueue_in(delay, 1)
    assert stored[0].at == pytest.approx(config.clock.now() + 60, abs=5)


def test_a_moment_is_an_aware_datetime_or_epoch_seconds(declare, stored):
    add = declare()
    add.enqueue_at(datetime(2100, 1, 1, tzinfo=UTC), 1)
    add.enqueue_at(4_102_444_800, 1)
    assert [prepared.at for prepared in stored] == [4_102_444_800.0] * 2
    with pytest.raises(InvalidOptions, match="no time zone"):
        add.enqueue_at(datetime(2100, 1, 1), 1)  # noqa: DTZ001


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_impossible_delays_are_refused(declare, stored, delay):
    with pytest.raises(InvalidOptions):
        declare().enqueue_in(delay, 1)
    assert stored == []


def test_many_are_given_as_calls_or_tuples(declare, stored):
    add = declare()
    jids = add.enqueue_many([add.call(1, c=5), (2, 3), [4]])
    assert [(job.payload["args"], job.payload.get("kwargs")) for job in stored] == [
        ([1], {"c": 5}),
        ([2, 3], None),
        ([4], None),
    ]
    assert jids == [job.jid for job in stored]


def test_many_may_be_lazy_spread_and_timed(declare, stored):
    add = declare()
    add.enqueue_many((add.call(n) for n in range(3)), at=timedelta(hours=1), batch_size=2)
    add.enqueue_many([(1,), (2,)], at=[60, 120])
    add.enqueue_many([(1,), (2,)], spread_interval=10)
    assert len(stored) == 7
    assert all(prepared.at is not None for prepared in stored)
    with pytest.raises(InvalidOptions, match="1 for 2"):
        add.enqueue_many([(1,), (2,)], at=[60])


def test_a_call_of_another_job_is_refused(declare, stored):
    @job(name="other")
    def other(a: int) -> None: ...

    with pytest.raises(InvalidArguments, match="add: got a call of another job, other"):
        declare().enqueue_many([other.call(1)])
    assert stored == []


def test_arguments_that_do_not_fit_are_told_when_enqueued(declare, stored):
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


def test_arguments_that_are_not_json_are_told_by_the_parameter_s_name(declare, stored):
    add = declare()
    with pytest.raises(InvalidArguments, match="add: the argument 'b' is a object"):
        add.enqueue(1, object())
    with pytest.raises(InvalidArguments, match="add: the argument 'c' is a tuple"):
        add.enqueue(1, c=(1, 2))
    assert stored == []


class TestOptions:
    def test_an_unknown_option_is_refused_at_the_first_push_and_not_before(self, declare, stored):
        add = declare(ques="low")
        with pytest.raises(InvalidOptions, match="add: unknown option 'ques'"):
            add.enqueue(1)
        assert stored == []

    def test_and_at_launch(self, declare, config):
        declare(ques="low")
        with pytest.raises(InvalidOptions, match="add: unknown option 'ques'"):
            registry.check_all(config)

    @pytest.mark.parametrize(
        "declaration",
        [
            {"retry": -1},
            {"retry": 3, "retry_for": 60},
            {"queue": ""},
            {"aliases": [7]},
            {"retry_in": 5},
            {"on_exhausted": "discard"},
        ],
        ids=str,
    )
    def test_impossible_ones_too(self, declare, config, declaration):
        declare(**declaration)
        with pytest.raises(InvalidOptions):
            registry.check_all(config)

    def test_those_of_using_are_checked_at_the_push(self, declare, stored):
        add = declare()
        for options in ({"que": "low"}, {"retry": -1}, {"name": "other"}, {"extra": {"unique_for": 5}}):
            with pytest.raises(InvalidOptions, match=r"^add: "):
                add.using(**options).enqueue(1)
        assert stored == []

    def test_those_of_extensions_are_known_once_installed_and_checked_by_them(self, declare, config, stored):
        def positive(value):
            if value <= 0:
                raise ValueError("must be positive")

        config.add_job_option("unique_for", positive)
        declare(extra={"unique_for": 5}).enqueue(1)
        assert stored[0].payload["unique_for"] == 5
        with pytest.raises(InvalidOptions, match="add: unique_for: must be positive"):
            declare(extra={"unique_for": 0}).enqueue(1)
        with pytest.raises(InvalidOptions, match="add: unique_for: must be positive"):
            declare().using(extra={"unique_for": -1}).enqueue(1)

    def test_what_is_not_for_redis_is_not_stored(self, declare, stored):
        declare(aliases=["x"], retry_in=lambda *_: 1, on_exhausted=lambda *_: None).using(wait_replicas=0).enqueue(1)
        assert set(stored[0].payload) == {
            *("retry", "queue", "args", "class", "jid", "created_at", "enqueued_at"),
        }

    def test_jobs_shared_with_ruby_have_no_keyword_only_parameters(self, declare):
        with pytest.raises(InvalidOptions, match=r"add is shared with Ruby.* c positional"):
            declare(shared_with_ruby=True)

        @job(shared_with_ruby=True)
        def fine(a, b=1): ...

    def test_of_a_base_class_are_handed_down_but_its_name_is_not(self, config, stored):
        class Base(Job, queue="low", retry=3): ...

        class One(Base, name="One"):
            def perform(self) -> None: ...

        class Two(One, retry=5):
            pass

        assert not hasattr(Base, "declared")
        One.enqueue()
        Two.enqueue()
        assert [(p.payload["class"][-3:], p.queue, p.payload["retry"]) for p in stored] == [
            ("One", "low", 3),
            ("Two", "low", 5),
        ]


class TestHooks:
    def test_of_a_function_are_options(self):
        add = make_function(retry_in=lambda count, error, payload: count * 10, on_exhausted=lambda *_: "discard")
        assert add.declared.retry_in(3, ValueError(), {}) == 30
        assert add.declared.on_exhausted({}, ValueError()) == "discard"

    def test_of_a_class_are_methods(self):
        class Hooked(Job):
            def perform(self) -> None: ...

            def retry_in(self, count, error, payload):
                return timedelta(seconds=count)

            @staticmethod
            def on_exhausted(payload, error):
                return "discard"

        assert Hooked.declared.retry_in(3, ValueError(), {}) == timedelta(seconds=3)
        assert Hooked.declared.on_exhausted({}, ValueError()) == "discard"

    def test_that_nobody_wrote_are_none(self, declare):
        declared = declare().declared
        assert declared.retry_in is None
        assert declared.on_exhausted is None
        plain = Job()
        assert plain.retry_in(0, ValueError(), {"class": "X", "args": []}) is None
        assert plain.on_exhausted({"class": "X", "args": []}, ValueError()) is None

    def test_a_method_wins_over_an_inherited_option(self):
        class Base(Job, retry_in=lambda *_: 1): ...

        class Own(Base):
            def perform(self) -> None: ...

            def retry_in(self, count, error, payload):
                return 2

        assert Own.declared.retry_in(0, ValueError(), {}) == 2


class TestRun:
    def test_a_class_makes_a_new_object_for_each_run_that_knows_its_job(self):
        class Who(Job, name="who"):
            def perform(self) -> tuple[str, int]:
                return self.jid, self.job.attempt

        context = JobContext(payload={"class": "who", "args": [], "jid": "abc", "retry_count": 0}, queue="default")
        instance = Who.declared.make(context)
        assert instance is not Who.declared.make(context)
        assert Who.declared.perform(instance, [], {}) == ("abc", 2)
        with running(context):
            assert Who().jid == "abc"
        with pytest.raises(NoCurrentJob):
            _ = Who().jid

    def test_stored_arguments_that_no_longer_fit_are_told_with_the_signature(self, declare):
        with pytest.raises(InvalidArguments, match=r"the stored arguments \[1, 2, 3\] do not fit.*add\(a: int"):
            declare().declared.check_fits([1, 2, 3], {})

    def test_a_coroutine_function_is_known_as_such(self):
        @job
        async def later() -> None: ...

        assert later.declared.is_async
        assert not make_function().declared.is_async


class TestClients:
    def test_the_default_configuration_pushes_when_nothing_else_is_said(self, declare, stored):
        assert declare().enqueue(1) == stored[0].jid

    def test_via_wins_over_the_job_s_own_client_which_may_be_a_function(self, declare, stored):
        own, asked = Config(), Config()
        own.jobs["queue"], asked.jobs["queue"] = "own", "asked"
        declare(client=Client(own)).enqueue(1)
        declare(client=lambda: Client(own)).enqueue(1)
        declare(client=Client(own)).via(Client(asked)).using(retry=1).enqueue(1)
        declare(client=AsyncClient(own)).enqueue(1)
        assert [prepared.queue for prepared in stored] == ["own", "own", "asked", "own"]

    def test_inside_a_worker_its_configuration_and_the_capsule_s_chain_push(self, declare, stored):
        config = Config()
        config.jobs["queue"] = "worker"
        capsule = config.capsule("low")
        capsule.client_middleware.add(lambda push, call_next: call_next(push))
        with in_capsule(capsule):
            declare().enqueue(1)
            asyncio.run(declare().aenqueue(1))
            capsule.client_middleware.add(lambda push, call_next: None)
            assert declare().enqueue(1) is None
            assert asyncio.run(declare().aenqueue(1)) is None
        assert [prepared.queue for prepared in stored] == ["worker", "worker"]

    def test_a_configuration_and_its_client_go_together(self, declare, stored):
        config = Config()
        gone = weakref.ref(config)
        with in_capsule(config.capsules["default"]):
            declare().enqueue(1)
            asyncio.run(declare().aenqueue(1))
        del config
        gc.collect()
        assert gone() is None

    def test_a_client_takes_a_declared_job_for_its_class(self, declare, config, stored):
        add = declare(queue="low")
        Client(config).push({"class": add, "args": [1], "kwargs": {"c": 5}})
        Client(config).push_bulk({"class": add.declared, "args": [[1], [2, 3]]})
        assert [prepared.queue for prepared in stored] == ["low"] * 3
        assert stored[0].payload["kwargs"] == {"c": 5}
        with pytest.raises(InvalidArguments, match=r"^add: "):
            Client(config).push({"class": add, "args": []})


class TestAsync:
    def test_every_way_to_enqueue_has_an_awaitable_twin(self, declare, stored):
        add = declare()

        async def enqueue_all():
            return [
                await add.aenqueue(1),
                await add.aenqueue_in(60, 1),
                await add.aenqueue_at(4_102_444_800, 1),
                *await add.aenqueue_many([add.call(1), (2,)]),
                await add.using(queue="low").via(AsyncClient(Config())).aenqueue(1),
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

    def test_and_work(self, declare, stored):
        add = declare()
        add.perform_async(1)
        add.set(queue="low").perform_in(60, 1)
        add.perform_bulk([[1], [2]])
        assert [prepared.queue for prepared in stored] == ["default", "low", "default", "default"]


def test_wait_replicas_reaches_the_client_and_not_the_payload(declare, config):
    asked = []

    class Asked(Client):
        def store(self, push, wait_replicas=0):
            asked.append((wait_replicas, "wait_replicas" in push.payload))
            return ""

    add = declare(client=Asked(config))
    add.using(wait_replicas=2).enqueue(1)
    add.enqueue(1)
    declare(client=Asked(config), wait_replicas=1).enqueue(1)
    Asked(config).push({"class": add, "args": [1], "wait_replicas": 1}, wait_replicas=3)
    Asked(config).push({"class": "X", "args": [1], "wait_replicas": 1})
    assert asked == [(2, False), (0, False), (1, False), (3, False), (1, False)]


def test_a_job_enqueued_after_commit_has_its_jid_at_once(declare, config, stored):
    callbacks = []
    config.after_commit = callbacks.append
    jid = declare().enqueue(1)
    assert stored == []
    callbacks[0]()
    assert stored[0].jid == jid


def test_pushes_of_other_threads_and_modes_do_not_leak(declare, stored):
    add = declare()
    inner = []
    with sinks.diverted(inner.extend):
        add.enqueue(1)
    add.enqueue(2)
    assert ([job.payload["args"] for job in inner], [job.payload["args"] for job in stored]) == ([[1]], [[2]])
