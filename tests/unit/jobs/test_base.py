"""Jobs written as classes: hooks, one object per run, inheritance."""

from datetime import timedelta

import pytest

from offsider import Job
from offsider.core.errors import InvalidJob, NoCurrentJob
from offsider.jobs import registry
from offsider.runtime.context import JobContext, running
from tests.unit.jobs.both import make_function


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

    def test_hooks_of_a_class_receive_the_failed_run(self):
        seen = []

        class Hooked(Job):
            def perform(self) -> None: ...

            def retry_in(self, count, error, payload):
                seen.append((self.jid, self.job.queue, self.job.retry_count))

            def on_exhausted(self, payload, error):
                seen.append((self.jid, self.job.queue, self.job.retry_count))

        payload = {"class": Hooked.declared.name, "args": [], "jid": "ab", "queue": "low", "retry_count": 3}
        Hooked.declared.retry_in(3, ValueError(), payload)
        Hooked.declared.on_exhausted(payload, ValueError())
        assert seen == [("ab", "low", 3)] * 2

    def test_a_method_wins_over_an_inherited_option(self):
        class Base(Job, retry_in=lambda *_: 1): ...

        class Own(Base):
            def perform(self) -> None: ...

            def retry_in(self, count, error, payload):
                return 2

        assert Own.declared.retry_in(0, ValueError(), {}) == 2

    def test_hooks_are_none_by_default(self, declare):
        declared = declare().declared
        assert declared.retry_in is None
        assert declared.on_exhausted is None
        plain = Job()
        assert plain.retry_in(0, ValueError(), {"class": "X", "args": []}) is None
        assert plain.on_exhausted({"class": "X", "args": []}, ValueError()) is None


class TestRun:
    def test_each_run_has_a_new_object_with_its_job(self):
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


class TestWithoutPerform:
    @pytest.mark.parametrize("name", ["perfom", "preform", "performs", "Perform"])
    def test_a_misspelled_perform_raises_at_the_declaration(self, name):
        with pytest.raises(InvalidJob, match=rf"Mistyped has a method {name} and no perform; if the job should run it"):
            type(Job)("Mistyped", (Job,), {name: lambda self: None})

    def test_a_base_may_have_other_attributes(self):
        class Base(Job, retry=3):
            def perform_all(self): ...
            def _perform(self): ...
            def run(self): ...

        class Own(Base):
            def perform(self) -> None: ...

        assert Own.declared.options == {"retry": 3}

    def test_to_push_it_names_the_class(self, stored):
        class Base(Job): ...

        for push in (Base.enqueue, Base.run_inline, lambda: Base.enqueue_in(5), lambda: Base.using(queue="low")):
            with pytest.raises(InvalidJob, match=r"test_base\..*Base is not a job: define the method perform"):
                push()
        assert stored == []

    def test_a_worker_warns_of_one_that_has_no_subclass_either(self, config, caplog):
        class Base(Job): ...

        class Lonely(Job): ...

        class Own(Base):
            def perform(self) -> None: ...

        registry.check_all(config)
        assert f"{Lonely.__qualname__} is not a job: define the method perform" in caplog.text
        assert f"{Base.__qualname__} has no method" not in caplog.text
        assert Own.declared in registry.all_jobs()
