"""Iterations over real stops, kills, failures and cancellations: which elements ran, and how often."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from offsider import resumable
from tests.process.stored import push, sorted_set, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_FLUSH_SECONDS": "0.2", "OFFSIDER_WORKER_LIVENESS_SECONDS": "6"}
APP = """
    import asyncio, os, time
    from offsider import IterableJob, current_job, job, resumable
    from tests.process.ledger import note

    def elements(count, start):
        return range(start or 0, int(os.environ.get("COUNT", count)))

    def seen(number):
        note("element", current_job().jid, number)

    @job(name="Walk", retry_in=lambda count, error, payload: 1)
    def walk(count, pause=0.01, fails_at=None, fails_after=False):
        for number in resumable(lambda start: elements(count, start), cursor=lambda number: number):
            seen(number)
            time.sleep(pause)
            if number == fails_at and current_job().attempt == 1:
                raise ValueError("on purpose")
        if fails_after and current_job().attempt == 1:
            raise ValueError("after the last element")
        note("end", current_job().jid, current_job().interrupted_count)

    @job(name="AsyncWalk")
    async def async_walk(count, pause=0.01):
        async for number in resumable(lambda start: elements(count, start), cursor=lambda number: number):
            seen(number)
            await asyncio.sleep(pause)
        note("end", current_job().jid, current_job().interrupted_count)

    @job(name="SlowSeek")
    def slow_seek(count):
        def late(start):
            time.sleep(0.4)
            yield from elements(count, start)

        for number in resumable(late, cursor=lambda number: number):
            seen(number)
            time.sleep(0.01)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(0.01)

    class Loop(IterableJob, name="Loop"):
        def build_enumerator(self, count, pause=0.01, *, cursor):
            return ((number, number) for number in elements(count, cursor))

        def each_iteration(self, number, count, pause=0.01):
            seen(number)
            time.sleep(pause)

        def on_start(self):
            note("hook", self.jid, "start")

        def on_resume(self):
            note("hook", self.jid, "resume")

        def on_stop(self):
            note("hook", self.jid, "stop")

        def on_cancel(self):
            note("hook", self.jid, "cancel")

        def on_complete(self):
            note("hook", self.jid, "complete")
            note("end", self.jid, self.job.interrupted_count)
"""


def elements(ledger) -> list[int]:
    return [int(word) for word in ledger.words("element")]


def reached(ledger, number: int) -> None:
    wait_for(lambda: len(ledger.words("element")) >= number)


@pytest.mark.parametrize("name", ["Walk", "AsyncWalk", "Loop"])
def test_stops_repeat_and_skip_no_element(workers, stored, ledger, name):
    jid = push(stored, name, 10_000)  # none ends before its stop
    for stop in range(1, 4):
        worker = workers.start("-c", "2", text=APP, environ=FAST)
        reached(ledger, 60 * stop)
        worker.stopped()
        assert [job["jid"] for job in waiting(stored)] == [jid]
        assert int(stored.hget(f"it-{jid}", "ex")) == stop
    count = len(elements(ledger)) + 60
    workers.start("-c", "2", text=APP, environ=FAST | {"COUNT": str(count)})
    wait_for(lambda: ledger.notes("end"))
    assert elements(ledger) == [*range(count)]
    assert ledger.words("end") == ["0"]  # a continued run is not interrupted
    wait_for(lambda: not stored.exists(f"it-{jid}"))
    if name == "Loop":
        assert ledger.words("hook") == ["start", *["stop", "resume"] * 3, "stop", "complete"]


def test_a_killed_run_repeats_only_what_was_done_since_the_cursor_was_stored(workers, stored, ledger):
    jid = push(stored, "Walk", 10_000)
    doomed = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: int(stored.hget(f"it-{jid}", "c") or 0))
    doomed.kill()
    kept = int(stored.hget(f"it-{jid}", "c"))
    done = max(elements(ledger))
    workers.start("-c", "1", text=APP, environ=FAST | {"COUNT": str(done + 100)})
    wait_for(lambda: ledger.notes("end"))
    assert Counter(elements(ledger)) == Counter([*range(done + 100), *range(kept, done + 1)])


def test_a_failed_element_is_where_the_next_attempt_begins(workers, stored, ledger):
    push(stored, "Walk", 50, 0.0, 20)
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("end"))
    assert elements(ledger) == [*range(21), *range(20, 50)]


def test_a_job_that_fails_after_its_iteration_does_not_repeat_it(workers, stored, ledger):
    jid = push(stored, "Walk", 50, 0.0, None, True)
    workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("end"))
    assert elements(ledger) == [*range(50)]
    wait_for(lambda: not stored.exists(f"it-{jid}"))


def test_a_soft_limit_ends_a_run_between_two_elements(workers, stored, ledger):
    push(stored, "Walk", 200, soft_timeout=0.5)
    worker = workers.start("-c", "1", text=APP, environ=FAST)
    wait_for(lambda: ledger.notes("end"))
    assert elements(ledger) == [*range(200)]
    worker.until_says("it continues at its cursor")
    assert sorted_set(stored, "retry") == []


@pytest.mark.interrupts
def test_a_soft_limit_lets_each_run_progress_and_holds_after_the_last_element(workers, stored, ledger):
    push(stored, "SlowSeek", 3, soft_timeout=0.2, retry=0)
    workers.start("-c", "1", text=APP, environ=FAST)
    (job,) = wait_for(lambda: sorted_set(stored, "dead"))
    assert "SoftTimeout" in job["error_class"]
    assert elements(ledger) == [*range(3)]


@pytest.mark.parametrize("name", ["Walk", "AsyncWalk", "Loop"])
def test_the_flag_that_ruby_sets_cancels_an_iteration(workers, stored, ledger, name):
    jid = push(stored, name, 10_000)
    workers.start("-c", "1", text=APP, environ=FAST)
    reached(ledger, 20)
    stored.hsetnx(f"it-{jid}", "cancelled", int(time.time()))
    wait_for(lambda: not stored.exists(f"it-{jid}"))
    wait_for(lambda: not stored.keys("offsider:working:*"))
    assert waiting(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []
    assert len(elements(ledger)) < 10_000
    if name == "Loop":
        assert ledger.words("hook") == ["start", "cancel", "stop", "complete"]


def test_ten_thousand_elements_without_a_worker(ledger, monkeypatch):
    """Tests and consoles iterate from the beginning, and store nothing."""
    from offsider import job

    @job
    def walk() -> None:
        seen.extend(resumable(range(10_000)))

    seen: list[int] = []
    walk.run_inline()
    assert seen == [*range(10_000)]
