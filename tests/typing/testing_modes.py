"""Type-checked only: `offsider.testing` as its users see it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from unittest.mock import ANY

from offsider import Config, Job, JobContext, Middleware, job, testing
from offsider.testing import EnqueuedJob, FakeClock, Recorder, RunningWorker, assert_enqueued, assert_not_enqueued


@job(queue="mails")
def send(user_id: int, *, twice: bool = False) -> str:
    return f"{user_id} {twice}"


@job
async def fetch(url: str) -> None: ...


class Report(Job):
    def perform(self, month: str) -> None: ...


def around(job: JobContext) -> Middleware:
    yield


with testing.fake() as enqueued:
    assert_type(enqueued, Recorder)
    assert_type(enqueued.jobs, list[EnqueuedJob])
    assert_type(enqueued.jobs_of(send), list[EnqueuedJob])
    assert_type(enqueued.queues["low"], list[EnqueuedJob])
    assert_type(enqueued.drain(), int)
    enqueued.drain(Report, only_due=True, limit=5)
    enqueued.drain(fetch)
    assert_type(enqueued.perform_one("Ruby"), Any)
    assert_type(assert_enqueued(send, 42, twice=True), EnqueuedJob)
    assert_enqueued(send.call(42, twice=True), queue="low", count=2)
    assert_enqueued(send.using(queue="low"), ANY, in_=timedelta(minutes=1))
    assert_enqueued(Report, "May", at=datetime(2030, 1, 1, tzinfo=UTC))
    assert_enqueued(Report.call("May"), in_=60)
    assert_enqueued(Report.using(retry=3))
    assert_enqueued(fetch, "https://example.com")
    assert_not_enqueued("Ruby", 1, 2)

with testing.inline(config=Config(), server_middleware=[around]), testing.disabled():
    pass

with testing.real() as real:
    assert_type(real, RunningWorker)

clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
clock.advance(timedelta(hours=1))
with clock.installed() as installed, RunningWorker(Config()) as worker:
    assert_type(installed, FakeClock)
    worker.wait(timeout_seconds=5)
    assert_type(worker.errors, list[BaseException])
