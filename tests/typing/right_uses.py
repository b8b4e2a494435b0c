"""Uses of the public API that both type checkers must accept without a word. Only checked, never run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from fastapi import Depends

from offsider import (
    AsyncJobFunction,
    Call,
    Client,
    Config,
    Discard,
    FailedRun,
    IterableJob,
    Job,
    JobContext,
    JobFunction,
    JobId,
    JobInfo,
    JobPayload,
    Middleware,
    Push,
    Reschedule,
    Skip,
    bind_context,
    configure_client,
    context,
    current_job,
    job,
    lookup,
    resumable,
)
from offsider.ext.batches import RESULT, Chain, Workflow, chain, chord, group
from offsider.ext.limiters import Limiter
from offsider.fastapi import inject

# Functions


@job
def send(user_id: int, subject: str = "hi", *, urgent: bool = False) -> str:
    return f"{user_id} {subject} {urgent} {current_job().jid}"


@job(
    urgency="high",
    resource_boundary="cpu",
    feature_category="mail",
    external_dependencies=True,
    concurrency_limit=3,
)
def deliver(user_id: int) -> None: ...


@job(queue="low", retry=5, tags=["a"], backtrace=True, retry_in=lambda count, error, payload: count * 60)
async def resize(path: str, *, width: int = 100) -> int:
    if width < 0:
        raise Discard("no such width")
    if width == 0:
        raise Skip
    raise Reschedule(timedelta(minutes=1))


@job(name=("HardJob", "OldJob"), retry_for=timedelta(days=1), shared_with_ruby=True)
def hard(number: int, /) -> None: ...


assert_type(send(1, urgent=True), str)


@job
def hook(**payload: int) -> str:
    return str(payload)


class Hook(Job):
    def perform(self, /, **payload: int) -> str:
        return str(payload)


links = {"self": 1}
assert_type(hook(self=1, cls=2), str)
assert_type(hook.enqueue(self=1, cls=2), JobId[str])
assert_type(hook.enqueue(**links), JobId[str])
assert_type(Hook.enqueue(self=1, cls=2), JobId[str])
Hook.enqueue_many([Hook.call(self=1)])
assert_type(send.enqueue(1), JobId[str])
assert_type(send.enqueue(1, "hello", urgent=True), JobId[str])
assert_type(send.enqueue(user_id=1), JobId[str])
assert_type(send.enqueue_in(60, 1), JobId[str])
assert_type(send.enqueue_in(timedelta(minutes=1), 1, subject="x"), JobId[str])
assert_type(send.enqueue_at(datetime.now(UTC), 1), JobId[str])
assert_type(send.enqueue_many(send.call(number) for number in range(3)), list[JobId[str]])
assert_type(send.enqueue_many([(1, "a"), (2, "x")], at=[60, datetime.now(UTC)], batch_size=10), list[JobId[str]])
assert_type(send.enqueue_many([(1,), (2,)]), list[JobId[str]])
assert_type(hard.enqueue_many((number,) for number in range(3)), list[JobId[None]])
assert_type(resize.perform_bulk([["a.png"], ["b.png"]]), list[JobId[int]])
assert_type(send.enqueue_many([send.call(1)], spread_interval=60), list[JobId[str]])
assert_type(send.enqueue_many([(1,), (2, "x")]), list[JobId[str]])
send.enqueue_many(zip([1, 2], ["a", "b"], strict=True))
send.using(queue="low").perform_bulk([(1,)])
fetched: list[tuple[Any, ...]] = []  # rows of a database cursor
send.enqueue_many(fetched)
send.enqueue_many([])
assert_type(send.using(queue="high", retry=False).enqueue(1), JobId[str])
assert_type(send.using(soft_timeout=60, hard_timeout=timedelta(minutes=2)).enqueue(1), JobId[str])
assert_type(send.using(unique_for=timedelta(hours=1), unique_until="start").enqueue(1), JobId[str])
assert_type(send.using(unique_for=False).using(unique_until="until_executed").enqueue(1), JobId[str])
assert_type(send.using(retry_for=60).using(wait_replicas=1).enqueue_in(1, 1), JobId[str])
assert_type(send.run_inline(1, urgent=True), str | None)
assert_type(resize.run_inline("a.png"), int | None)
hard.enqueue(1)
assert_type(chain(resize.call("a.png")), Chain[int])
assert_type(chain(resize.call("a.png"), send.call(RESULT)).enqueue(), JobId[str])
assert_type(chain(group(resize.call("a.png"), resize.call("b.png")), send.call(RESULT)), Chain[str])
assert_type(group(resize.call(path) for path in ("a.png", "b.png")).enqueue(), list[JobId[int]])
assert_type(
    Workflow().step("one", send.call(1)).step("two", resize.call(RESULT), after=["one"]).enqueue()["two"], JobId[Any]
)


async def asynchronously(client: Client) -> None:
    assert_type(await resize("a.png"), int)
    assert_type(await resize.aenqueue("a.png", width=5), JobId[int])
    assert_type(await resize.aenqueue_in(5, "a.png"), JobId[int])
    assert_type(await resize.aenqueue_at(datetime.now(UTC), "a.png"), JobId[int])
    assert_type(await resize.via(client).aenqueue_many([resize.call("a.png")]), list[JobId[int]])
    assert_type(await client.apush({"class": "HardJob", "args": [1]}), JobId[Any])
    assert_type(await Report.aenqueue("x", pages=2), JobId[int])
    assert_type(await Report.aenqueue_many([Report.call("x")]), list[JobId[int]])
    assert_type(await Report.aenqueue_many([("x",), ("y", 2)]), list[JobId[int]])
    assert_type(await send.aenqueue_many([(1,), (2, "x")], batch_size=5), list[JobId[str]])


def later(count: int, error: ValueError, payload: JobPayload) -> timedelta | None:
    return timedelta(seconds=count) if error.args and payload["args"] else None


@job(retry_in=later, on_exhausted=lambda payload, error: "discard")
def hooked() -> None: ...


# Chunks


@job(chunk=100, chunk_seconds=timedelta(seconds=5), queue="low")
def index(calls: list[Call[int, str]]) -> None:
    for call in calls:
        number, text = call.args
        assert_type(number, int)
        assert_type(text, str)
        assert_type(call.jid, str)
        assert_type(call.job, JobContext)
        if not text:
            call.fail(ValueError(number))


@job(chunk=2)
async def aindex(calls: list[Call[int]]) -> None:
    assert_type([call.args for call in calls], list[tuple[int]])


@job(chunk=2)
def ticks(calls: list[Call[()]]) -> None: ...


@job(chunk=2)
def wide(calls: list[Call[int, int, int, int, str]]) -> None:
    assert_type(calls[0].args, tuple[int, int, int, int, str])


assert_type(index.enqueue(1, "x"), JobId[None])
assert_type(index.using(queue="high").enqueue_in(5, 1, "x"), JobId[None])
assert_type(index.enqueue_many([index.call(1, "x"), (2, "y")]), list[JobId[None]])
aindex.enqueue(1)
ticks.enqueue()
wide.enqueue(1, 2, 3, 4, "x")
group(index.call(1, "x"), index.call(2, "y")).enqueue()


# Classes


class Report(Job, queue="reports", retry=0, dead=False):
    def perform(self, title: str, pages: int = 1) -> int:
        assert_type(self.jid, str)
        assert_type(self.job, JobContext)
        return pages

    def retry_in(self, count: int, error: BaseException, payload: JobPayload) -> float:
        return 2.0**count

    def on_exhausted(self, payload: JobPayload, error: BaseException) -> None: ...


class Quarterly(Report, queue="quarterly"):
    pass


class Fetch(Job):
    async def perform(self, url: str, *, depth: int = 1) -> None: ...


assert_type(Report.enqueue("x"), JobId[int])
assert_type(Report.enqueue("x", pages=2), JobId[int])
assert_type(Report.enqueue_in(5, "x", 2), JobId[int])
assert_type(Report.enqueue_at(datetime.now(UTC), "x"), JobId[int])
assert_type(chord(group(resize.call("a.png")), Report.call(RESULT)).enqueue().result(timeout=5), int)
assert_type(Report.enqueue_many([Report.call("x"), Report.call("y", 2)]), list[JobId[int]])
assert_type(Report.enqueue_many([("x", 1), ("y", 2)]), list[JobId[int]])
assert_type(Report.using(queue="high").enqueue("x", pages=2), JobId[int])
assert_type(Quarterly.enqueue("x"), JobId[int])
assert_type(Fetch.enqueue("https://example.org", depth=2), JobId[None])
Report.run_inline("x")

# Sidekiq's names

assert_type(send.perform_async(1), JobId[str])
assert_type(send.set(queue="low").perform_in(60, 1), JobId[str])
assert_type(Report.perform_async("x", pages=2), JobId[int])
assert_type(Report.perform_at(datetime.now(UTC), "x"), JobId[int])
assert_type(Report.perform_bulk([("x",)]), list[JobId[int]])
assert_type(Report.set(retry=3).perform_in(60, "x"), JobId[int])
Report.perform_inline("x")

# Clients, middleware, passing jobs around

client = Client(Config())
assert_type(client.push({"class": send, "args": [1], "queue": "low", "own": {"a": 1}}, wait_replicas=1), JobId[Any])
assert_type(client.push_bulk({"class": "X", "args": [[1], [2]]}, spread_interval=60), list[JobId[Any]])
assert_type(client.push_bulk({"class": "X", "args": [[1]]}, spread_interval=timedelta(minutes=1)), list[JobId[Any]])
assert_type(send.via(client).enqueue(1), JobId[str])
assert_type(send.via(lambda: client).enqueue(1), JobId[str])


@configure_client
def plug_in(config: Config) -> None:
    def stamp(push: Push) -> Middleware:
        push.payload["tags"] = ["stamped"]
        pushed: Push | None = yield
        print(pushed)

    config.client_middleware.add(stamp)


def enqueue_twice(function: JobFunction[[int], None], number: int) -> list[JobId[None]]:
    return [function.enqueue(number), function.using(queue="low").enqueue(number)]


enqueue_twice(hard, 5)


def resize_all(function: AsyncJobFunction[[str], int], paths: list[str]) -> list[JobId[int]]:
    return function.enqueue_many([function.call(path) for path in paths])


def enqueue_both(typed: JobFunction[[int], None], untyped: JobFunction[..., Any]) -> None:
    typed.enqueue_many([(1,), (2,)])
    untyped.enqueue_many([(1, "x"), ("a",)])
    untyped.enqueue_many([untyped.call(1)])


# What travels with jobs


def place_order(user: str) -> str:
    with context(user=user, shop=7, trial=None):
        bind_context(paying=True)
        return send.enqueue(1)


@context(caller_id="command: import")
def command(path: str) -> int:
    with current_job().measure("db"):
        return len(path)


assert_type(command("a"), int)
assert_type(current_job().measured_seconds["db"], float)


# Dependencies of FastAPI


@job
@inject
def charge(user_id: int, rate: float = Depends(float)) -> float:
    return rate


@job
@inject
async def acharge(user_id: int, rate: float = Depends(float)) -> float:
    return rate


charge.enqueue(1)
acharge.enqueue_in(60, 1)
assert_type(charge(1, rate=2.0), float)


# States and results


jid = send.enqueue(1)
if jid:
    as_text: str = jid
    assert_type(jid.result(timeout=5), str)
    assert_type(jid.cancel(hard=True), bool)
    if jid.status() == "succeeded":
        assert_type(jid.info(), JobInfo)
        assert_type(jid.info().failures, tuple[FailedRun, ...])
assert_type(lookup("abc"), JobId[Any])
assert_type(send.lookup("abc"), JobId[str])
assert_type(resize.using(server="bulk").lookup("abc").result(), int)
assert_type(Fetch.lookup("abc"), JobId[None])


async def wait_for(fetched: JobId[int]) -> None:
    resized = await resize.aenqueue("a.png")
    if resized:
        assert_type(await resized.aresult(), int)
        assert_type(await resized.acancel(), bool)
        await wait_for(resized)
    fetch = Fetch.enqueue_in(5, "https://example.org")
    assert_type(fetch and fetch.result(), JobId[None] | None)


with Limiter.window("api", 5, "minute", reschedule=3).within_limit(used=2):
    pass
with Limiter.points("shop", 1000, 50).within_limit(estimate=10) as use:
    use.points_used(12)


async def limited() -> None:
    async with Limiter.concurrent("erp", 3, lock_timeout=60).within_limit():
        pass


# Iterations


@job
def reindex(tenant: int) -> None:
    for number in resumable([1, 2]):
        assert_type(number, int)
    for user in resumable(lambda start: ["ann", "kim"], cursor=lambda user: user.upper()):
        assert_type(user, str)


class Import(IterableJob, queue="low"):
    def build_enumerator(self, path: str, *, cursor: int | None) -> Iterator[tuple[str, int]]:
        yield from ((line, number) for number, line in enumerate(path.splitlines()) if number >= (cursor or 0))

    def each_iteration(self, line: str, path: str) -> None: ...


class AsyncImport(IterableJob):
    def build_enumerator(self, path: str, *, cursor: int | None) -> Iterator[tuple[str, int]]:
        yield path, 0

    async def each_iteration(self, line: str, path: str) -> None: ...


assert_type(Import.enqueue("a.csv"), JobId[None])
Import.enqueue_in(60, "a.csv")
Import.enqueue_many([("a.csv",)])
AsyncImport.perform_async("a.csv")
