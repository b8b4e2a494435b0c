"""Iterations outside of a worker, and their errors."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from offsider import (
    InvalidArguments,
    InvalidJob,
    IterableJob,
    JobContext,
    NoCurrentJob,
    job,
    resumable,
)
from offsider.runtime.context import running

RUN = JobContext({"class": "Walk", "jid": "1", "args": []}, "default")


def walk(elements: Callable[[], Any]) -> list[Any]:
    with running(JobContext(RUN.payload, "default")):
        return [*elements()]


async def awalk(elements: Callable[[], Any]) -> list[Any]:
    with running(JobContext(RUN.payload, "default")):
        return [element async for element in elements()]


async def numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


def test_a_function_of_the_cursor_and_an_iterable_give_all_elements():
    assert walk(lambda: resumable(lambda start: range(start or 0, 3), cursor=lambda number: number)) == [0, 1, 2]
    rows = csv.DictReader(io.StringIO("a,b\n1,2\n3,4\n"))
    assert walk(lambda: resumable(rows)) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_a_coroutine_iterates_over_plain_and_asynchronous_elements():
    assert asyncio.run(awalk(lambda: resumable(lambda _: numbers(3), cursor=lambda number: number))) == [0, 1, 2]
    assert asyncio.run(awalk(lambda: resumable([5, 6]))) == [5, 6]


def test_what_an_iteration_knows():
    elements = resumable(["a", "b"])
    assert (elements.executions, elements.cursor) == (0, None)
    with running(JobContext(RUN.payload, "default")):
        assert [(element, elements.cursor, elements.executions) for element in elements] == [("a", 0, 1), ("b", 1, 1)]
    assert not elements.is_cancelled


def never() -> Any:
    return resumable(lambda _: numbers(1), cursor=lambda number: number)


@pytest.mark.parametrize(
    "elements, error, message",
    [
        (lambda: resumable(lambda _: [object()], cursor=lambda each: each), InvalidArguments, "JSON cannot store the"),
        (lambda: resumable(lambda _: [1], cursor=lambda _: "x" * 70_000), InvalidArguments, "the limit of a cursor"),
        (never, InvalidJob, "use `async for` to iterate over async_generator"),
        (lambda: resumable(lambda _: [1]), InvalidJob, "pass cursor="),  # type: ignore[call-overload]
    ],
)
def test_what_cannot_be_iterated_over_has_a_clear_error(elements, error, message):
    with pytest.raises(error, match=message):
        walk(elements)


def test_a_job_has_one_iteration():
    with running(JobContext(RUN.payload, "default")):
        assert [*resumable([1])] == [1]
        with pytest.raises(InvalidJob, match="Walk: resumable is used twice, but a job has one cursor"):
            next(iter(resumable([1])))


def test_a_coroutine_cannot_block_its_event_loop():
    async def blocks() -> None:
        with running(JobContext(RUN.payload, "default")):
            next(iter(resumable([1])))

    with pytest.raises(InvalidJob, match="use `async for` in a coroutine"):
        asyncio.run(blocks())


def test_an_iteration_needs_a_job():
    with pytest.raises(NoCurrentJob):
        next(iter(resumable([1])))


# ------------------------------------------------------------------------------- IterableJob


class Rows(IterableJob, name="unit.Rows"):
    seen: ClassVar[list[object]] = []

    def build_enumerator(self, count: int, *, cursor: int | None, unit: str = "row") -> Any:
        return None if count < 0 else ((f"{unit} {number}", number) for number in range(cursor or 0, count))

    def each_iteration(self, row: str, count: int, *, unit: str = "row") -> None:
        self.seen.append((row, self.cursor, count))

    @contextmanager
    def around_iteration(self):
        self.seen.append("before")
        yield
        self.seen.append("after")

    def on_start(self) -> None:
        self.seen.append("start")

    def on_complete(self) -> None:
        self.seen.append("complete")


class AsyncRows(IterableJob, name="unit.AsyncRows"):
    seen: ClassVar[list[object]] = []

    def build_enumerator(self, count: int, *, cursor: int | None) -> Any:
        return ((number, number) for number in range(cursor or 0, count))

    async def each_iteration(self, number: int, count: int) -> None:
        await asyncio.sleep(0)
        self.seen.append(number)


@pytest.fixture(autouse=True)
def _nothing_seen():
    Rows.seen.clear()
    AsyncRows.seen.clear()


def test_the_arguments_of_an_iterable_job_are_those_of_its_elements():
    Rows.run_inline(1, unit="line")
    assert Rows.seen == ["start", "before", ("line 0", 0, 1), "after", "complete"]
    with pytest.raises(InvalidArguments, match=r"unit\.Rows"):
        Rows.run_inline()


def test_elements_of_a_coroutine_run_one_after_the_other():
    AsyncRows.run_inline(3)
    assert AsyncRows.seen == [0, 1, 2]


def test_no_enumerator_means_nothing_to_do():
    Rows.run_inline(-1)
    assert Rows.seen == []


def test_an_enumerator_without_cursors_is_an_error():
    class Bare(IterableJob, name="unit.Bare"):
        def build_enumerator(self, *, cursor: int | None) -> Any:
            return range(3)

        def each_iteration(self, number: int) -> None: ...

    with pytest.raises(InvalidJob, match=r"unit\.Bare: build_enumerator must yield pairs \(element, cursor\), got int"):
        Bare.run_inline()


def test_an_iterable_job_has_no_perform_and_its_base_is_no_job():
    with pytest.raises(InvalidJob, match="an IterableJob has no perform"):

        class Wrong(IterableJob):
            def perform(self) -> None: ...

    class Base(IterableJob):
        def build_enumerator(self, *, cursor: int | None) -> Any:
            return [(1, 1)]

    with pytest.raises(InvalidJob, match="is not a job"):
        Base.enqueue()


def test_a_function_of_a_job_iterates_inline():
    seen: list[int] = []

    @job(name="unit.inline")
    def inline() -> None:
        seen.extend(resumable([1, 2]))

    inline.run_inline()
    assert seen == [1, 2]
