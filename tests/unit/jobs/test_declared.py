"""What a declaration says: options are refused when they are first used, hooks and names are kept."""

from datetime import timedelta

import pytest

from offsider import Job, job
from offsider.core.errors import InvalidJob, InvalidOptions
from offsider.jobs import registry


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


def test_zero_and_false_are_not_the_same_retry(declare, stored):
    declare(retry=0).enqueue(1)
    declare(retry=False).enqueue(1)
    assert [prepared.payload["retry"] is False for prepared in stored] == [False, True]


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


def test_a_declaration_shows_its_name(declare):
    assert repr(declare().declared) == "<job add>"


@pytest.mark.parametrize("name", ["", None])
def test_an_empty_name_is_not_taken_for_none_given(name):
    with pytest.raises(InvalidOptions, match=rf"test_declared\..*add: a name must be a string .*, got {name!r}"):

        @job(name=name)
        def add(): ...


class TestGenerators:
    """Called, they give a generator and run nothing: such a job would count as done."""

    def test_a_function_with_a_yield_is_refused_at_its_declaration(self):
        with pytest.raises(InvalidJob, match=r"steps has a yield, .* never reach its body; .*test_declared\.py:\d+"):

            @job(name="steps")
            def steps():
                yield 1

        assert "steps" not in registry.names()

    def test_an_asynchronous_one_too(self):
        with pytest.raises(InvalidJob, match="steps has a yield"):

            @job(name="steps")
            async def steps():
                yield 1

    def test_and_the_perform_of_a_class(self):
        with pytest.raises(InvalidJob, match="steps has a yield"):

            class Steps(Job, name="steps"):
                def perform(self):
                    yield 1
