"""Declarations: options are checked at first use, hooks and names are kept."""

import abc
import contextlib
import functools
from datetime import timedelta

import pytest

from offsider import Job, job
from offsider.config.routing import Rules
from offsider.core.characteristics import Characteristics
from offsider.core.errors import InvalidJob, InvalidOptions
from offsider.core.options import CHARACTERISTICS
from offsider.jobs import registry


class TestOptions:
    def test_an_unknown_option_is_refused_at_the_first_push_and_not_before(self, declare, stored):
        add = declare(ques="low")
        with pytest.raises(InvalidOptions, match="add: unknown option 'ques'"):
            add.enqueue(1)
        assert stored == []

    @pytest.mark.parametrize(
        "declaration",
        [
            {"retry": -1},
            {"retry": 3, "retry_for": 60},
            {"queue": ""},
            {"name": ["add", 7]},
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

    def test_options_of_extensions_are_accepted_once_installed_and_validated(self, declare, config, stored):
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

    def test_local_options_are_not_stored(self, declare, config, stored):
        config.client.app_version = "2.14"  # else it is the commit, and there may be none
        declare(name=["add", "x"], retry_in=lambda *_: 1, on_exhausted=lambda *_: None).using(wait_replicas=0).enqueue(
            1
        )
        assert set(stored[0].payload) == {
            *("retry", "queue", "args", "class", "jid", "created_at", "enqueued_at", "signature", "app_version"),
        }

    def test_jobs_shared_with_ruby_have_no_keyword_only_parameters(self, declare):
        with pytest.raises(InvalidOptions, match=r"add is shared with Ruby.* c positional"):
            declare(shared_with_ruby=True)

        @job(shared_with_ruby=True)
        def fine(a, b=1): ...

    def test_options_of_a_base_class_are_inherited_but_not_its_name(self, config, stored):
        class Base(Job, queue="low", retry=3, urgency="throttled", feature_category="search"): ...

        class One(Base, name="One"):
            def perform(self) -> None: ...

        class Two(One, retry=5, feature_category="index"):
            pass

        assert not hasattr(Base, "declared")
        One.enqueue()
        Two.enqueue()
        assert [(p.payload["class"][-3:], p.queue, p.payload["retry"]) for p in stored] == [
            ("One", "low", 3),
            ("Two", "low", 5),
        ]
        assert One.declared.characteristics == Characteristics(urgency="throttled", feature_category="search")
        assert Two.declared.characteristics == Characteristics(urgency="throttled", feature_category="index")


def test_options_of_using_override_declared_ones(declare, config, stored):
    config.jobs["queue"] = "lowest"
    add = declare(queue="declared", retry=0, tags=["a"])
    add.enqueue(1)
    add.using(queue="asked").enqueue(1)
    add.using(queue="first").using(retry_for=timedelta(minutes=1)).enqueue(1)
    assert [prepared.queue for prepared in stored] == ["declared", "asked", "first"]
    assert [prepared.payload["retry"] for prepared in stored] == [0, 0, True]
    assert stored[2].payload["retry_for"] == 60
    assert all(prepared.payload["tags"] == ["a"] for prepared in stored)


def test_a_declaration_shows_its_name(declare):
    assert repr(declare().declared) == "<job add>"


@pytest.mark.parametrize("name", ["", None])
def test_an_empty_name_is_not_treated_as_missing(name):
    with pytest.raises(InvalidOptions, match=rf"test_declared\..*add: a name must be a string .*, got {name!r}"):

        @job(name=name)
        def add(): ...


class TestGenerators:
    """Called, they give a generator and run nothing: such a job would count as done."""

    def test_a_function_with_a_yield_is_refused_at_its_declaration(self):
        with pytest.raises(InvalidJob, match=r"steps contains yield, .* never run its body; .*test_declared\.py:\d+"):

            @job(name="steps")
            def steps():
                yield 1

        assert "steps" not in registry.names()

    @pytest.mark.parametrize(
        "decorate", [contextlib.contextmanager, lambda run: functools.wraps(run)(functools.partial(run))]
    )
    def test_and_one_behind_a_decorator(self, decorate):
        with pytest.raises(InvalidJob, match="steps contains yield"):

            @job(name="steps")
            @decorate
            def steps():
                yield 1


@pytest.mark.parametrize("decorate", [lambda run: run, lambda run: functools.wraps(run)(functools.partial(run))])
def test_a_cache_of_coroutines_is_refused(decorate):
    with pytest.raises(InvalidJob, match=r"cached: functools\.lru_cache keeps the coroutine of the first run"):

        @job(name="cached")
        @decorate
        @functools.cache
        async def cached(): ...


def test_a_cache_of_results_and_a_bound_method_are_accepted():
    class Plain:
        def run(self): ...

    job(name="cached")(functools.cache(lambda: 1))
    job(name="bound")(Plain().run)


class TestCharacteristics:
    def test_they_are_kept_and_never_stored(self, declare, stored):
        add = declare(urgency="high", resource_boundary="unknown", idempotent=True, tags=["a"])
        add.enqueue(1)
        assert add.declared.characteristics == Characteristics(urgency="high", idempotent=True, tags=("a",))
        assert not CHARACTERISTICS.keys() & stored[0].payload.keys()
        assert stored[0].payload["tags"] == ["a"]

    def test_an_impossible_one_is_refused_at_the_first_push_and_at_launch(self, declare, config, stored):
        add = declare(urgency="urgent")
        with pytest.raises(InvalidOptions, match="add: urgency must be one of high, low, throttled, got 'urgent'"):
            add.enqueue(1)
        with pytest.raises(InvalidOptions, match="add: urgency must be one of"):
            registry.check_all(config)
        assert stored == []


class TestRouting:
    def test_the_first_rule_beats_the_declared_queue_and_using_beats_both(self, declare, config, stored):
        config.routing.rules = [["urgency=high", "urgent"], ["*", "rest"]]
        add = declare(urgency="high", queue="declared")
        add.enqueue(1)
        add.using(queue="asked").enqueue(1)
        add.enqueue_in(60, 1)
        add.enqueue_many([[1], [2]])
        assert [prepared.queue for prepared in stored] == ["urgent", "asked", "urgent", "urgent", "urgent"]
        assert stored[0].payload["queue"] == "urgent"

    def test_changed_rules_apply_from_the_next_push(self, declare, config, stored):
        add = declare(queue="declared")
        add.enqueue(1)
        config.routing.rules = [["*", "rest"]]
        add.enqueue(1)
        config.routing.rules = []
        add.enqueue(1)
        assert [prepared.queue for prepared in stored] == ["declared", "rest", "declared"]

    def test_rules_are_evaluated_once_for_each_job(self, declare, config, stored, monkeypatch):
        config.routing.rules = [["urgency=high", "urgent"]] * 50
        looked = []
        route = Rules.route
        monkeypatch.setattr(Rules, "route", lambda rules, job: looked.append(job.name) or route(rules, job))
        add = declare()
        for number in range(3):
            add.enqueue(number)
        add.enqueue_many([[1], [2]])
        assert looked == ["add"]
        assert len(stored) == 5

    def test_the_queue_resolver_has_the_last_word(self, declare, config, stored):
        config.routing.rules = [["*", "rest"]]
        config.queue_resolver = lambda push: "resolved"
        declare().enqueue(1)
        assert stored[0].queue == "resolved"


class Callable:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    "function, reason",
    [
        (functools.partial(print, 1), "an object of the class partial, which has no name: declare a function with def"),
        (Callable(), "an object of the class Callable"),
        (classmethod(print), "an object of the class classmethod"),
        (property(print), "an object of the class property"),
        (dict.get, "an object of the class method_descriptor"),
        (5, "an object of the class int"),
        (max, "builtins.max: its parameters are unknown: declare a function with def"),
    ],
    ids=["partial", "instance", "classmethod", "property", "descriptor", "number", "C"],
)
@pytest.mark.parametrize("declare", [job, job(name="named")], ids=["bare", "named"])
def test_only_functions_with_a_name_and_parameters_can_be_declared(declare, function, reason):
    with pytest.raises(InvalidJob, match="named: its parameters" if function is max and declare is not job else reason):
        declare(function)


@pytest.mark.parametrize(
    "perform",
    [staticmethod(print), classmethod(print), property(print), 5, lambda: None, lambda *args: None],
    ids=["staticmethod", "classmethod", "property", "number", "no self", "any"],
)
def test_perform_is_a_method_that_takes_its_object(perform):
    with pytest.raises(InvalidJob, match=r"def perform\(self, \.\.\.\)"):
        type("Wrong", (Job,), {"perform": perform})


def test_an_abstract_perform_is_no_job_and_its_subclasses_are(config):
    class Base(Job, abc.ABC):
        @abc.abstractmethod
        def perform(self) -> int: ...

    class Concrete(Base):
        def perform(self) -> int:
            return 1

    assert Concrete.run_inline() == 1
    with pytest.raises(InvalidJob, match="is not a job: define the method perform"):
        Base.enqueue()


def test_an_isolated_job_is_a_plain_function():
    with pytest.raises(InvalidJob, match="is isolated, so it must be a plain function"):

        @job(name="unit.isolated", isolated=True)
        async def isolated() -> None: ...
