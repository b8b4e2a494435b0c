"""A function that runs many jobs: its declaration, its pushes, and its calls in test modes."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from offsider import (
    Call,
    ChunkFunction,
    Discard,
    InvalidArguments,
    InvalidJob,
    InvalidOptions,
    IterableJob,
    Job,
    JobContext,
    NoCurrentJob,
    Reschedule,
    TooManyReschedules,
    current_job,
    job,
)
from offsider.testing import fake, inline


@pytest.fixture
def seen() -> list[list[tuple[Any, ...]]]:
    return []


@pytest.fixture
def index(seen):
    @job(name="index", chunk=3, chunk_seconds=timedelta(seconds=2))
    def index(calls: list[Call[int, str]]) -> None:
        seen.append([call.args for call in calls])
        for call in calls:
            match call.args[1]:
                case "wrong":
                    call.fail(ValueError(call.args[0]))
                    call.fail(KeyError("later"))
                case "later":
                    call.fail(Reschedule(60))
                case "skip":
                    call.fail(Discard("no"))
                case "all":
                    raise OSError("all")

    return index


def test_pushes_are_checked_by_the_types_of_a_call(config, stored, index):
    assert isinstance(index, ChunkFunction)
    assert (index.declared.chunk, index.declared.chunk_seconds) == (3, 2.0)
    index.enqueue(1, "a")
    index.using(queue="low").enqueue_many([(2, "b"), index.call(3, "c")])
    assert [prepared.payload["args"] for prepared in stored] == [[1, "a"], [2, "b"], [3, "c"]]
    assert all("chunk" not in prepared.payload for prepared in stored)
    for wrong in ((1,), (1, "a", 2)):
        with pytest.raises(InvalidArguments, match=r"index\(arg1: int, arg2: str, /\)"):
            index.enqueue(*wrong)
    with pytest.raises(InvalidArguments):
        index.enqueue(1, arg2="a")


def test_a_call_without_types_takes_any_arguments(config, stored):
    @job(chunk=2)
    def anything(calls: list[Call]) -> None: ...  # type: ignore[type-arg]

    @job(chunk=2)
    def nothing(calls: list[Call[()]]) -> None: ...

    anything.enqueue(1, "a", None)
    nothing.enqueue()
    assert anything.declared.chunk_seconds == 5
    with pytest.raises(InvalidArguments):
        nothing.enqueue(1)  # type: ignore[call-arg]


def test_the_codec_converts_the_arguments_of_each_job(config, stored):
    days: list[date] = []

    @job(chunk=2, codec="annotations")
    def note(calls: list[Call[date]]) -> None:
        days.extend(call.args[0] for call in calls)

    note.enqueue(date(2026, 11, 28))
    assert stored[0].payload["args"] == ["2026-11-28"]
    note.run_inline(date(2026, 11, 28))
    assert days == [date(2026, 11, 28)]


def test_the_function_can_be_called(index, seen):
    call = Call((1, "a"), JobContext({"class": "index", "args": [1, "a"], "jid": "ab"}, "default"))
    index([call])
    assert seen == [[(1, "a")]]
    assert (call.jid, repr(call), call.error) == ("ab", "<call index JID-ab>", None)
    with pytest.raises(InvalidArguments, match=r"call\.fail takes an exception, got str"):
        call.fail("wrong")  # type: ignore[arg-type]


def test_other_parameters_are_refused():
    def of_numbers(calls: list[int]) -> None: ...
    def untyped(calls): ...
    def of_two(calls: list[Call[int]], more: int) -> None: ...
    def unknown(calls: list[Call[Missing]]) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function in (of_numbers, untyped, of_two, lambda: None):
        with pytest.raises(InvalidJob, match=r"must be a function of one list.*list\[Call\[int, str\]\]"):
            job(chunk=2)(function)  # type: ignore[call-overload]
    with pytest.raises(InvalidJob, match="name 'Missing' is not defined; import it at run time"):
        job(chunk=2)(unknown)


def test_what_a_chunk_does_not_combine_with_is_refused_at_the_declaration():
    def index(calls: list[Call[int]]) -> None: ...

    with pytest.raises(InvalidJob, match="runs in chunks, so it cannot be isolated"):
        job(chunk=2, isolated=True)(index)
    with pytest.raises(InvalidOptions, match="chunk_seconds needs chunk"):
        job(chunk_seconds=2)(index)  # type: ignore[call-overload]
    with pytest.raises(InvalidJob, match="must be a function"):

        class Index(Job, chunk=2):  # type: ignore[call-arg]
            def perform(self, calls: list[Call[int]]) -> None: ...

    with pytest.raises(InvalidJob, match="must be a function"):

        class Elements(IterableJob, chunk=2):  # type: ignore[call-arg]
            def build_enumerator(self, *, cursor: int | None) -> list[tuple[int, int]]:
                return []

            def each_iteration(self, element: int) -> None: ...


@pytest.mark.parametrize(
    "options", [{"chunk": 0}, {"chunk": "9"}, {"chunk": 2, "chunk_seconds": 0}, {"chunk": 2, "chunk_seconds": "5"}]
)
def test_invalid_options_are_refused(config, options):
    @job(**options)
    def index(calls: list[Call[int]]) -> None: ...

    with pytest.raises(InvalidOptions, match=r"index: chunk"):
        index.enqueue(1)


def test_the_options_are_not_for_a_push(config, index):
    with pytest.raises(InvalidOptions, match=r"set chunk in @job"):
        index.using(chunk=2).enqueue(1, "a")


# ------------------------------------------------------------------------------- test modes


def test_inline_runs_a_chunk_of_one(config, index, seen):
    with inline():
        index.enqueue(1, "a")
        with pytest.raises(ValueError, match="2"):
            index.enqueue(2, "wrong")
    assert index.run_inline(3, "skip") is None
    assert seen == [[(1, "a")], [(2, "wrong")], [(3, "skip")]]


def test_a_coroutine_runs_and_there_is_no_current_job(config):
    lost = []

    @job(chunk=2)
    async def index(calls: list[Call[int]]) -> None:
        with pytest.raises(NoCurrentJob):
            current_job()
        lost.extend(call.args for call in calls)

    index.run_inline(1)
    assert lost == [(1,)]


def test_a_function_that_returns_an_unused_coroutine_fails(config):
    async def body() -> None: ...

    kept = []

    @job(chunk=2)
    def index(calls: list[Call[int]]) -> Any:
        kept.append(body())
        return kept[0]

    with pytest.raises(InvalidJob, match="whose body has not run"):
        index.run_inline(1)
    kept[0].close()


def test_drain_runs_what_is_there_in_chunks(config, index, seen):
    with fake() as enqueued:
        for number in range(5):
            index.enqueue(number, "")
        assert enqueued.drain(limit=5) == 5
        assert len(enqueued.performed) == 5
    assert [len(args) for args in seen] == [3, 2]


def test_each_job_of_a_drained_chunk_has_its_own_end(config, index, seen):
    notes = []

    def noting(run):
        try:
            yield
        except BaseException as error:
            notes.append((run.args[0], type(error)))
            raise
        notes.append((run.args[0], current_job().args[0]))

    config.server_middleware.add(noting)
    with fake() as enqueued:
        index.enqueue(1, "")
        index.enqueue(2, "wrong")
        index.enqueue(3, "later")
        with pytest.raises(ValueError, match="2") as raised:
            enqueued.drain()
        assert raised.value.__notes__ == ["while running the job index(2, 'wrong')"]
        assert [kept.args for kept in enqueued.performed] == [[1, ""]]
        assert [kept.args for kept in enqueued.jobs] == [[3, "later"]]
    assert notes == [(1, 1), (2, ValueError), (3, Reschedule)]


def test_an_error_of_the_function_fails_the_others(config, index):
    with fake() as enqueued:
        index.enqueue(1, "skip")
        index.enqueue(2, "all")
        with pytest.raises(OSError, match="all"):
            enqueued.drain()
        assert [kept.args[0] for kept in enqueued.performed] == [1]


def test_middleware_keeps_a_job_out_of_its_chunk(config, index, seen):
    def refusing(run):
        if run.args[0] == 1:
            return
        if run.args[0] == 2:
            raise OSError("no")
        yield

    config.server_middleware.add(refusing)
    with fake() as enqueued:
        for number in range(3):
            index.enqueue(number, "")
        with pytest.raises(OSError, match="no"):
            enqueued.drain()
        index.enqueue(1, "")
        index.enqueue(1, "")
        enqueued.drain()
    assert seen == [[(0, "")]]


def test_a_limit_of_reschedules_counts_in_a_chunk(config):
    @job(chunk=2)
    def index(calls: list[Call[int]]) -> None:
        raise Reschedule(1, limit=1)

    with fake() as enqueued:
        index.enqueue(1)
        index.enqueue(2)
        assert enqueued.drain() == 2
        with pytest.raises(TooManyReschedules):
            enqueued.drain()
