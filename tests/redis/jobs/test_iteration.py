"""What an iteration reads and stores during a run: with a server, without one, and after its process was fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from offsider import Client, Config, InvalidArguments, IterableJob, JobContext, RunInterrupted, Skip, resumable
from offsider.config.installation import Installation
from offsider.core.errors import Reschedule
from offsider.jobs.clients import pushing_with
from offsider.runtime.context import running
from offsider.storage.working import Owner

IDENTITY = "host:1:aaaaaaaaaaaa"


@pytest.fixture
def iterate(config) -> Callable[..., list[int]]:
    """Iterate over 100 numbers in a run of job 1; ``each`` is called with every one."""
    config.worker.flush_seconds = 1e-9

    def iterate(each: Callable[[int], object] = lambda _: None, using: Config = config) -> list[int]:
        job = JobContext({"class": "Walk", "jid": "1", "args": []}, "default", owner=Owner(IDENTITY, "default"))
        seen: list[int] = []
        with running(job), pushing_with(Client(using)):
            for number in resumable(lambda start: range(start or 0, 100), cursor=lambda number: number):
                seen.append(number)
                each(number)
        return seen

    return iterate


def test_a_run_begins_at_the_stored_cursor_and_stores_its_own(iterate, raw_redis):
    raw_redis.hset("it-1", mapping={"ex": "3", "c": "90", "rt": "2"})
    stored = []
    assert iterate(lambda _: stored.append(raw_redis.hget("it-1", "c"))) == [*range(90, 100)]
    assert stored == [str(number).encode() for number in range(90, 100)]
    assert raw_redis.hget("it-1", "ex") == b"4"
    assert float(raw_redis.hget("it-1", "rt")) >= 2


def test_a_cancelled_iteration_ends_before_its_next_element(iterate, raw_redis):
    seen: list[int] = []

    def cancel(number: int) -> None:
        seen.append(number)
        if number == 5:
            raw_redis.hset("it-1", "cancelled", 1)

    with pytest.raises(Skip, match="cancelled"):
        iterate(cancel)
    assert seen == [*range(6)]
    with pytest.raises(Skip, match="cancelled"):
        iterate()


def test_a_fenced_process_ends_its_iteration(iterate, config, raw_redis):
    keys = Installation.of(config).redis.keys
    with pytest.raises(RunInterrupted):
        iterate(lambda _: raw_redis.set(keys.fenced(IDENTITY), 1))


def test_an_iteration_that_has_ended_is_not_repeated(iterate, raw_redis):
    raw_redis.hset("it-1", mapping={"ex": "3", "c": "90", "rt": "2", "end": "1"})
    assert iterate() == []


def test_an_unreadable_cursor_is_not_the_beginning(iterate, raw_redis):
    raw_redis.hset("it-1", mapping={"ex": "3", "c": "{", "rt": "2"})
    with pytest.raises(InvalidArguments, match=r"Walk: the stored cursor is not JSON.*delete the key it-1"):
        iterate()


def test_without_a_server_a_run_does_not_begin(iterate):
    nowhere = Config()
    nowhere.redis.url = "redis://127.0.0.1:1"
    with pytest.raises(RunInterrupted):
        iterate(using=nowhere)
    Installation.of(nowhere).close()


def test_a_cursor_that_cannot_be_stored_is_reported_and_the_run_goes_on(iterate, config, raw_redis):
    reports = []
    config.error_handlers.append(lambda error, context: reports.append((type(error).__name__, context["context"])))

    def spoil(number: int) -> None:
        if number == 5:
            raw_redis.delete("it-1")
            raw_redis.set("it-1", "no hash")

    assert iterate(spoil) == [*range(100)]
    assert reports == [("RedisRefused", "storing cursors of iterations")]


def a_run(jid: str = "1") -> JobContext:
    return JobContext({"class": "Walk", "jid": jid, "args": []}, "default", owner=Owner(IDENTITY, "default"))


def test_a_cursor_that_is_not_json_ends_the_run_at_its_element_and_the_last_one_is_kept(config):
    job, cursors = a_run(), [1, 2, object()]
    with running(job), pushing_with(Client(config)), pytest.raises(InvalidArguments, match="JSON cannot store"):
        [*resumable(lambda start: cursors, cursor=lambda each: each)]
    (effect,) = job.effects
    (applied,) = effect.applied(None, "retry")
    assert applied.arguments[applied.arguments.index("c") + 1] == "2"


@pytest.mark.parametrize("stored", ['"a"', "true", "1.5", "[1]"])
def test_a_position_is_a_whole_number(config, raw_redis, stored):
    raw_redis.hset("it-1", mapping={"ex": 1, "c": stored, "rt": 1})
    with running(a_run()), pushing_with(Client(config)), pytest.raises(InvalidArguments, match="not the position"):
        next(iter(resumable([1, 2])))


def test_a_soft_limit_ends_no_run_before_its_first_element_nor_after_the_last(config):
    job = a_run()
    with running(job), pushing_with(Client(config)):
        elements = iter(resumable([1, 2]))
        job.must_yield = True
        assert next(elements) == 1
        with pytest.raises(RunInterrupted):
            next(elements)
    job = a_run("2")
    with running(job), pushing_with(Client(config)):
        assert [*resumable([1])] == [1]
        assert job.iterates is False
    job = a_run("3")
    with running(job), pushing_with(Client(config)):
        elements = iter(resumable([1]))
        next(elements)
        job.must_yield = True
        with pytest.raises(RunInterrupted):
            next(elements)


def test_after_a_break_the_soft_limit_is_that_of_any_job(config):
    async def breaks() -> None:
        async for _ in resumable([1, 2]):
            break
        for _ in range(9):  # the loop closes the iterator
            await asyncio.sleep(0)
        assert job.iterates is False

    job = a_run()
    with running(job), pushing_with(Client(config)):
        for _ in resumable([1, 2]):
            break
        assert job.iterates is False
    job = a_run("2")
    with running(job), pushing_with(Client(config)):
        asyncio.run(breaks())


def test_an_asynchronous_iteration_stores_and_ends_like_a_plain_one(iterate, config, raw_redis):
    assert iterate  # sets the interval of the stores
    stored: list[bytes | None] = []

    async def walk(start: int | None = None) -> None:
        async for _ in resumable([1, 2, 3]):
            stored.append(raw_redis.hget("it-1", "c"))  # noqa: PERF401 - between two elements

    with running(a_run()), pushing_with(Client(config)):
        asyncio.run(walk())
    assert stored == [b"0", b"1", b"2"]
    raw_redis.hset("it-1", "end", 1)
    with running(a_run()), pushing_with(Client(config)):
        asyncio.run(walk())
    assert len(stored) == 3


class Hooked(IterableJob, name="redis.Hooked"):
    def build_enumerator(self, *, cursor: int | None) -> list[tuple[int, int]]:
        return [(number, number) for number in range(cursor or 0, 3)]

    def each_iteration(self, number: int) -> None:
        HOOKS.append(str(number))
        if number == LATER:
            raise Reschedule(60)

    def on_resume(self) -> None:
        HOOKS.append("resume")

    def on_stop(self) -> None:
        HOOKS.append("stop")

    def on_cancel(self) -> None:
        HOOKS.append("cancel")

    def on_complete(self) -> None:
        HOOKS.append("complete")


HOOKS: list[str] = []
LATER: int | None = None


def test_the_hooks_of_a_stop_a_later_run_a_cancellation_and_a_delay(config, raw_redis, monkeypatch):
    def perform(**more: object) -> None:
        HOOKS.clear()
        job = JobContext({"class": "Walk", "jid": "1", "args": []}, "default", owner=Owner(IDENTITY, "default"), **more)
        with running(job), pushing_with(Client(config)):
            Hooked.declared.perform(Hooked.declared.make(job), [], {})

    with pytest.raises(RunInterrupted):
        perform(is_stopping=lambda: True)
    assert HOOKS == ["stop"]
    raw_redis.hset("it-1", mapping={"ex": 1, "c": "1", "rt": 1})
    perform()
    assert HOOKS == ["resume", "1", "2", "stop", "complete"]
    raw_redis.hset("it-1", "cancelled", 1)
    with pytest.raises(Skip):
        perform()
    assert HOOKS == ["cancel", "stop", "complete"]
    raw_redis.hdel("it-1", "cancelled")
    monkeypatch.setitem(globals(), "LATER", 1)
    with pytest.raises(Reschedule):
        perform()
    assert HOOKS == ["resume", "1", "stop"]
