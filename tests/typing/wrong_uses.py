"""Uses that both type checkers must report: every line that ends in the mark, and no other. Never run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from fastapi import Depends

from offsider import (
    Call,
    Client,
    Config,
    IterableJob,
    Job,
    JobId,
    Reschedule,
    bind_context,
    context,
    current_job,
    job,
    resumable,
)
from offsider.ext.batches import RESULT, Workflow, chain, chord, group
from offsider.ext.limiters import Limiter
from offsider.fastapi import inject


@job
def send(user_id: int, subject: str = "hi", *, urgent: bool = False) -> str:
    return subject


@job(queue="low")
async def resize(path: str) -> int:
    return 1


class Report(Job, queue="reports"):
    def perform(self, title: str, pages: int = 1) -> int:
        return pages


class Empty(Job):
    pass


@job
@inject
def charge(user_id: int, rate: float = Depends(float)) -> float:
    return rate


@job(chunk=2)
def index(calls: list[Call[int, str]]) -> None:
    calls[0].fail("wrong")  # error
    calls[0].args[1].bit_length()  # error


@job(chunk=2)
async def aindex(calls: list[Call[int]]) -> None: ...


client = Client(Config())

index.enqueue(1)  # error
index.enqueue("x", 1)  # error
index.enqueue([1, "x"])  # error
index.call(1)  # error
index.using(chunk=5)  # error
aindex.enqueue("x")  # error
job(chunk="2")  # error
job(chunk_seconds=5)  # error

send("1")  # error
send.enqueue("1")  # error
send.enqueue()  # error
send.enqueue(1, 2)  # error
send.enqueue(1, color="red")  # error
send.enqueue(1, urgent="yes")  # error
send.using(soft_timeout="60")  # error
send.enqueue_in(60)  # error
send.enqueue_in("60", 1)  # error
send.enqueue_at("tomorrow", 1)  # error
send.enqueue_at(timedelta(minutes=1), 1)  # error
send.call("1")  # error
chain(send.call("1"), resize.call(RESULT))  # error
chain(send, resize)  # error
group(send)  # error
chord(send.call(1), resize.call(RESULT))  # error
Workflow().step(send.call(1))  # error
Workflow().step("one", send.call(1), after=[send])  # error
send.enqueue_many([resize.call("x")])  # error
send.enqueue_many([1, 2])  # error
send.enqueue_many([(1, "x")], bath_size=5)  # error
charge.enqueue("1")  # error
charge.enqueue()  # error
charge.enqueue(1, color="red")  # error
resize.run_inline("x").bit_length()  # error
send.using(que="low")  # error
send.using(retry="3")  # error
send.using(name="other")  # error
send.using(queue="low").enqueue("1")  # error
send.using(urgency="high")  # error
job(urgency="urgent")  # error
send.via(5)  # error
send.perform_async("1")  # error
send.perform_in(60, "1")  # error
send.set(que="low")  # error
send.run_inline("1")  # error

Report.enqueue(1)  # error
Report.enqueue()  # error
Report.enqueue("x", 1, 2)  # error
Report.enqueue("x", page=2)  # error
Report.enqueue_in(5, 1)  # error
Report.enqueue_many([send.call(1)])  # error
Empty.enqueue_many([("x",)])  # error
Report.run_inline("x").upper()  # error
Report.using(que="low")  # error
Report.using(queue="low").enqueue(1)  # error
Report.perform_async(1)  # error
Report.set(queue="low").perform_async(1)  # error
Empty.enqueue()  # error


async def asynchronously() -> None:
    await send.aenqueue("1")  # error
    await send.aenqueue_in(60)  # error
    await resize.aenqueue_at("later", "x")  # error
    await Report.aenqueue(1)  # error
    await send.enqueue(1)  # error


def results(jid: JobId[int]) -> str:
    jid.result(timeout="1")  # error
    jid.cancel(True)  # error
    resize.lookup("abc").result().upper()  # error
    Report.lookup("abc").result().upper()  # error
    return jid.result()  # error


@job(ques="low")  # error
def misspelt() -> None: ...


@job(retry="often")  # error
def wrongly_retried() -> None: ...


@job(retry_in=lambda count: count)  # error
def wrongly_hooked() -> None: ...


class Misspelt(Job, que="low"):  # error
    def perform(self) -> None: ...


class Import(IterableJob):
    def build_enumerator(self, path: str, *, cursor: int | None) -> Iterator[tuple[str, int]]:
        yield path, 0

    def each_iteration(self, line: str, path: str) -> None: ...


Import.enqueue(5)  # error
Import.enqueue_in(60)  # error
resumable(lambda start: [1])  # error
client.push(5)  # error
client.push({"class": "X", "args": []}, wait_replicas="1")  # error
client.push_bulk({"class": "X", "args": []}, batch_size="5")  # error
context(user=["ann"])  # error
bind_context(user={"name": "ann"})  # error
current_job().measure()  # error
Limiter.bucket("api", 5, "week")  # error
Limiter.bucket("api", 5, "day", reschedul=3)  # error
Limiter.concurrent("erp", 3).within_limit(used=2)  # error
Limiter.points("shop", 1000, 50).within_limit()  # error
raise Reschedule("soon")  # error
