"""What is stamped on a push made here: from open blocks, from the running job, and nothing of strangers."""

from __future__ import annotations

import contextvars
import threading

import pytest

from offsider.core.errors import InvalidOptions
from offsider.runtime.context import JobContext, running
from offsider.runtime.propagation import bind_context, carried, context, edge, payload_context, stamps


def job(**payload):
    return JobContext({"class": "Hard", "args": [], "jid": "ab", **payload}, "default")


def in_a_fresh_context(function):
    return contextvars.Context().run(function)


def without_id(found):
    return {key: value for key, value in found.items() if key != "correlation_id"}


def test_a_block_stamps_its_fields_and_a_correlation_id_of_its_own():
    assert stamps() == carried(None) == {}
    with context(user="ann", shop=7, paying=True, share=0.5):
        first, second = stamps(), stamps()
    assert without_id(first) == {"meta.user": "ann", "meta.shop": 7, "meta.paying": True, "meta.share": 0.5}
    assert len(first["correlation_id"]) == 32
    assert first == second
    assert stamps() == {}
    with context():
        assert stamps()["correlation_id"] != first["correlation_id"]


def test_a_block_is_a_decorator_too_and_ends_with_an_error():
    @context(caller_id="command: import")
    def command():
        raise LookupError(stamps()["meta.caller_id"])

    with pytest.raises(LookupError, match="command: import"):
        command()
    assert stamps() == {}


def test_nested_blocks_inherit_all_fields():
    with context(user="ann", project="a"):
        outer = stamps()
        with context(project="b", user=None, step=1):
            assert without_id(stamps()) == {"meta.project": "b", "meta.step": 1}
            assert stamps()["correlation_id"] == outer["correlation_id"]
        assert stamps() == outer


def test_binding_adds_to_the_innermost_block_and_ends_with_it():
    with context(user="ann"):
        with context(step=1):
            bind_context(user="bob", colour="red")
            assert without_id(stamps()) == {"meta.user": "bob", "meta.step": 1, "meta.colour": "red"}
        assert without_id(stamps()) == {"meta.user": "ann"}


def test_fields_bound_by_a_thread_are_visible_in_the_whole_block():
    """A web framework runs the parts of one request in several threads, each with a copy of the context."""
    with context():
        copied = contextvars.copy_context()
        other = threading.Thread(target=copied.run, args=(lambda: bind_context(user="ann"),))
        other.start()
        other.join()
        assert stamps()["meta.user"] == "ann"


def test_binding_without_a_block_applies_to_the_thread():
    def command():
        bind_context(caller_id="cron: nightly")
        bind_context(user="ann")
        return stamps()

    found = in_a_fresh_context(command)
    assert without_id(found) == {"meta.caller_id": "cron: nightly", "meta.user": "ann"}
    assert len(found["correlation_id"]) == 32
    assert stamps() == {}


def test_long_text_is_cut():
    with context(user="x" * 1000, correlation_id="y" * 1000):
        assert stamps() == {"meta.user": "x" * 255, "correlation_id": "y" * 255}


@pytest.mark.parametrize("name", ["User", "meta.user", "1st", "", "x" * 65, "naïve"])
def test_a_name_that_cannot_be_a_field_is_refused(name):
    with pytest.raises(InvalidOptions, match=r"context: .* is no name"), context(**{name: 1}):
        pass


@pytest.mark.parametrize("value", [["a"], {"a": 1}, b"a", object(), float("nan"), float("inf"), 2**64])
def test_a_value_that_is_not_a_plain_string_or_number_is_refused(value):
    with pytest.raises(InvalidOptions, match="context: user must be text"):
        bind_context(user=value)
    assert stamps() == {}


def test_a_job_passes_on_its_context_with_its_class_as_caller():
    carries = {"meta.user": "ann", "meta.caller_id": "POST /orders", "correlation_id": "c1"}
    with running(job(**carries)):
        assert stamps() == {**carries, "meta.caller_id": "Hard"}
    with running(job()):
        assert stamps() == {"correlation_id": "ab", "meta.caller_id": "Hard"}, "the job began the chain"
    with running(JobContext({"class": "Hard", "args": []}, "default")):
        assert stamps() == {"meta.caller_id": "Hard"}


@pytest.mark.parametrize("wrapped, caller", [("MailJob", "MailJob"), ("", "Hard"), (7, "Hard")])
def test_an_active_job_calls_by_the_name_of_the_class_inside(wrapped, caller):
    with running(job(wrapped=wrapped)):
        assert stamps()["meta.caller_id"] == caller


def test_fields_bound_inside_a_job_override_its_context():
    with running(job(**{"meta.user": "ann", "meta.project": "a"})):
        bind_context(user="bob")
        bind_context(colour="red")
        with context(project="b", caller_id="step 2"):
            bind_context(colour=None)
            assert without_id(stamps()) == {"meta.user": "bob", "meta.project": "b", "meta.caller_id": "step 2"}
        assert without_id(stamps()) == {
            "meta.user": "bob",
            "meta.project": "a",
            "meta.colour": "red",
            "meta.caller_id": "Hard",
        }


def test_a_block_around_a_job_does_not_affect_the_job():
    """What it should have was stamped when it was pushed; a test or an embedded worker may run it anywhere."""
    with context(user="ann"), running(job()):
        assert "meta.user" not in stamps()
        bind_context(colour="red")
        assert stamps()["meta.colour"] == "red"


def test_fields_and_an_open_block_of_a_job_do_not_affect_other_jobs():
    block = context(user="ann")
    with running(job()):
        bind_context(project="a")
        block.__enter__()
    assert stamps() == carried(None) == {}
    with running(job()):
        assert without_id(stamps()) == {"meta.caller_id": "Hard"}
    block.__exit__(None, None, None)


def test_odd_values_of_a_foreign_payload_are_not_passed_on():
    odd = {"meta.list": [1], "meta.none": None, "meta.long": "x" * 1000, "correlation_id": 7}
    with running(job(**odd)):
        assert stamps() == {"meta.long": "x" * 255, "meta.caller_id": "Hard"}


def test_the_log_has_the_caller_of_a_job_and_its_bound_fields():
    running_job = job(**{"meta.caller_id": "POST /orders", "meta.user": "ann"})
    with running(running_job):
        bind_context(user="bob")
        assert carried(running_job) == {"correlation_id": "ab", "meta.caller_id": "POST /orders", "meta.user": "bob"}


def test_the_context_of_a_stored_payload():
    assert payload_context({"class": "X", "jid": "ab", "meta.user": "ann", "meta.n": 1}) == {
        "correlation_id": "ab",
        "meta.user": "ann",
        "meta.n": 1,
    }
    assert payload_context({"class": "X"}) == {}


# ------------------------------------------------------------------------------------------ the edge of a request


def test_an_edge_determines_the_caller_at_the_push():
    known = []
    with edge(lambda: known[0] if known else None):
        assert list(stamps()) == ["correlation_id"]
        known.append("POST /orders")
        assert stamps()["meta.caller_id"] == "POST /orders"
        with context(user="ann"):
            assert without_id(stamps()) == {"meta.user": "ann", "meta.caller_id": "POST /orders"}
        with context(caller_id="my own"):
            assert stamps()["meta.caller_id"] == "my own"


def test_an_edge_overrides_the_caller_of_an_outer_block():
    with context(caller_id="server", node="a"), edge(lambda: "GET /"):
        assert without_id(stamps()) == {"meta.caller_id": "GET /", "meta.node": "a"}


def test_a_framework_error_about_the_caller_fails_no_push_and_a_long_route_is_cut():
    with edge(lambda: 1 / 0):
        assert list(stamps()) == ["correlation_id"]
    with edge(lambda: "/x" * 1000):
        assert len(stamps()["meta.caller_id"]) == 255


@pytest.mark.parametrize(
    "sent, kept", [("req-1.a:b/c+d=e@f_g", True), ("", False), (None, False), ("a b", False), ("x" * 129, False)]
)
def test_an_edge_keeps_a_valid_correlation_id_and_replaces_an_invalid_one(sent, kept):
    with edge(lambda: None, sent):
        found = stamps()["correlation_id"]
    assert (found == sent) is kept
    assert kept or len(found) == 32
