"""A release is rolled out: old and new workers side by side, and jobs that only one of them can run."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from offsider import Client, Config, job
from offsider.config.installation import Installation
from offsider.jobs import registry
from tests.process.stored import private, sorted_set, waiting
from tests.waiting import wait_for

OLD = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="Resize")
    def resize(path):
        note("old", word=path)

    def configure(config):
        config.on("job_stranded", lambda news: note("stranded", news.job.jid))
"""
NEW = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="Resize")
    def resize(path, width):
        note("new", word=f"{path} {width}")

    @job(name="Crop")
    def crop(path):
        note("new", word=f"crop {path}")
"""
JOBS = 12
LATER_SECONDS = 250
#: Jobs that have to be tried again until the right worker has them need some seconds; the machine may be slow.
PATIENT = 60.0


@pytest.fixture
def client(url) -> Iterator[Client]:
    config = Config()
    config.redis.url = url
    config.client.app_version = "2.15"
    with registry.isolated():
        yield Client(config)
    Installation.of(config).close()


def old_release():
    with registry.isolated():

        @job(name="Resize")
        def resize(path: str) -> None: ...

        return resize


def new_release():
    with registry.isolated():

        @job(name="Resize")
        def resize(path: str, width: int) -> None: ...

        @job(name="Crop")
        def crop(path: str) -> None: ...

        return resize, crop


def stranded(stored):
    return [found for found in sorted_set(stored, "schedule") if "stranded_at" in found]


def put_off(stored) -> int:
    """Postpone the stranded jobs of the schedule for a long time; returns their number."""
    later = time.time() + LATER_SECONDS
    raws = [raw for raw in stored.zrange("schedule", 0, -1) if b"stranded_at" in raw]
    stored.zadd("schedule", dict.fromkeys(raws, later), xx=True)
    return stored.zcount("schedule", later - 60, later)


@pytest.mark.parametrize("fetcher", ["reliable", "basic"])
def test_jobs_of_the_new_release_wait_for_a_new_worker_and_none_is_lost_or_retried(
    workers, stored, ledger, client, fetcher
):
    environ = {"OFFSIDER_WORKER_FETCHER": fetcher}
    old = workers.start("-c", "2", app=workers.write(OLD, "old.py"), environ=environ)
    resize, crop = new_release()
    resize.via(client).enqueue_many([(f"{number}.png", 100) for number in range(JOBS)])
    crop.via(client).enqueue("a.png")
    old_release().via(client).enqueue("still fits.png")

    wait_for(lambda: len(ledger.counts("stranded")) == JOBS + 1, PATIENT)
    wait_for(lambda: ledger.words("old") == ["still fits.png"], PATIENT)
    assert stored.zcard("retry") == stored.zcard("dead") == 0
    assert all("retry_count" not in found for found in stranded(stored))
    old.until_says("pushed by version 2.15")
    # As if they had been there for long: their next try is minutes away.
    wait_for(lambda: put_off(stored) == JOBS + 1, PATIENT)

    new = workers.start("-c", "5", app=workers.write(NEW, "new.py"), environ=environ)
    wait_for(lambda: len(ledger.words("new")) == JOBS + 1, PATIENT)
    assert sorted(ledger.words("new")) == sorted([*(f"{number}.png 100" for number in range(JOBS)), "crop a.png"])
    wait_for(lambda: waiting(stored) == private(stored) == sorted_set(stored, "schedule") == [])
    assert stored.zcard("retry") == stored.zcard("dead") == 0
    new.stopped()
    old.stopped()


def test_jobs_of_the_old_release_run_on_the_old_worker_while_it_exists(workers, stored, ledger, client):
    workers.start("-c", "2", app=workers.write(OLD, "old.py"))
    workers.start("-c", "2", app=workers.write(NEW, "new.py"))
    old_release().via(client).enqueue_many([(f"{number}.png",) for number in range(JOBS)])
    wait_for(lambda: len(ledger.words("old")) == JOBS, PATIENT)
    assert ledger.words("new") == []
    assert stored.zcard("retry") == stored.zcard("dead") == 0
    assert ledger.notes("stranded") == []
