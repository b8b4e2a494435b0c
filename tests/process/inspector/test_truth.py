"""Every number of the screens, of `offsider stats` and of `offsider top` is compared with the jobs' own records.

A known workload runs: up to 2,000 short jobs a second of which 7 % fail, three long jobs, a paused queue, and three
workers, one of which dies with its host. While it runs, numbers that move are compared with the ledger of the seconds
they cover; afterwards every number has to be exact. For a longer run:

    TEST_TRUTH_SECONDS=130 TEST_TRUTH_PER_SECOND=700 pytest tests/process/inspector/test_truth.py
"""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import redis

from offsider.cli.stats import counters as counters_of
from offsider.cli.top.pages import Address
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.screens.tabs import current_tab
from offsider.storage.activity import RATE_SECONDS
from tests.process.ledger import Note
from tests.screen_tables import rows
from tests.waiting import wait_for

PER_SECOND = int(os.environ.get("TEST_TRUTH_PER_SECOND", "2000"))
#: The workload runs at least this long.
SECONDS = float(os.environ.get("TEST_TRUTH_SECONDS", "0"))
#: The phases have limits of their own, of 370 s in all.
pytestmark = pytest.mark.timeout(400 + SECONDS)
#: A machine that runs fewer than `PER_SECOND` gets no more jobs while this many wait.
MAX_WAITING = 1_000
LOOKS = 3
#: Longer than all phases of the test.
LONG_SECONDS = 3600.0
FAILING, DYING = 7, 2  # of 100 jobs, these fail, and these of them are exhausted
PAUSED_JOBS = 123
WINDOW_SECONDS = 5.0
#: A report each second, and the cache time of a page in seconds.
AGE_SECONDS = 2.5
#: On a machine that starves a worker its last report counts for longer, see `RATE_SECONDS`.
STARVED_SECONDS = RATE_SECONDS + 1
#: A worker that finished nothing between two reports restarts its window, see `Rates.note`.
PAUSE_SECONDS = 0.8
#: A machine that freezes for a few seconds kills no worker.
FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "12"}
APP = """
    import time
    from offsider import current_job, job
    from tests.process.ledger import note

    @job(name="Short", retry_in=lambda count, error, payload: 3600)
    def short(number: int, fails: bool):
        note("failed" if fails else "done", current_job().jid, number)
        if fails:
            raise ValueError("on purpose")

    @job(name="Long", queue="long")
    def long(seconds: float):
        note("begun", current_job().jid, repr(time.time()))
        time.sleep(seconds)
        note("done", current_job().jid)
"""


class Workload(threading.Thread):
    """Pushes at an even pace until stopped; waits for workers that do not keep up."""

    def __init__(self, client: Client, stored: redis.Redis) -> None:
        super().__init__(name="workload")
        self._client = client
        self._stored = stored
        self._ended = threading.Event()
        self.pushed = 0

    def run(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(0.02):
            due = int((time.monotonic() - started) * PER_SECOND)
            if self._stored.llen("queue:default") >= MAX_WAITING:
                continue
            numbers = range(self.pushed, min(due, self.pushed + MAX_WAITING))
            for dying in (False, True):
                args = [[n, n % 100 < FAILING] for n in numbers if (n % 100 < DYING) == dying]
                self._client.push_bulk({"class": "Short", "args": args, "retry": 0 if dying else 5})
            self.pushed = numbers.stop if numbers else self.pushed

    def end(self) -> None:
        self._ended.set()
        self.join()


def by_worker(notes: Sequence[Note]) -> list[list[float]]:
    times: dict[int, list[float]] = defaultdict(list)
    for note in notes:
        times[note.pid].append(note.time)
    return [sorted(each) for each in times.values()]


def rates_of(times: list[float], before: float, now: float) -> list[float]:
    """One worker's true rates in all windows that a number shown in this time may stand for."""
    ends = [now - (now - before + STARVED_SECONDS) * step / 60 for step in range(61)]
    return [(bisect_right(times, end) - bisect_right(times, end - WINDOW_SECONDS)) / WINDOW_SECONDS for end in ends]


def assert_rate(shown: float, notes: Sequence[Note], before: float, now: float) -> None:
    """Each worker reports at a time of its own."""
    true = [rates_of(times, before, now) for times in by_worker(notes)]
    least, most = sum(min(rates) for rates in true), sum(max(rates) for rates in true)
    assert 0.9 * least <= shown <= 1.1 * most, (shown, least, most)


def is_steady(notes: Sequence[Note], workers: int, since: float, now: float) -> bool:
    """Every worker has run jobs without a pause since then."""
    found = by_worker(notes)
    spans = [[since, *(at for at in times if since < at < now), now] for times in found]
    return len(found) == workers and all(
        later - earlier < PAUSE_SECONDS for span in spans for earlier, later in pairwise(span)
    )


def test_every_number_is_true(workers, config, stored, ledger, page):
    client = Client(config)
    stored.sadd("paused", "asleep")
    client.push_bulk({"class": "Short", "queue": "asleep", "args": [[n, False] for n in range(PAUSED_JOBS)]})
    pushed_at = time.time()
    for _ in range(3):
        client.push({"class": "Long", "queue": "long", "args": [LONG_SECONDS]})
    queues = ["-c", "4", "-q", "default", "-q", "asleep"]
    # One worker runs all long jobs, so that another one can die without any.
    living = [workers.start(*queues, "-q", "long", text=APP, environ=FAST)]
    living.append(workers.start(*queues, text=APP, environ=FAST))
    doomed = workers.start(*queues, text=APP, environ=FAST)
    wait_for(lambda: len(ledger.notes("begun")) == 3)
    wait_for(lambda: len(rows(page("/fleet/processes/running"), "Running jobs")) == 3)  # the workers' next report
    workload = Workload(client, stored)
    workload.start()
    try:
        looks: list[bool] = []
        # Rates are comparable where no worker paused (see `is_steady`), which may be never on a starved machine.
        least, until = time.monotonic() + SECONDS, time.monotonic() + SECONDS + 60
        wait_for(
            lambda: (
                looks.append(compare_while_it_runs(page, ledger, config, pushed_at))
                or (sum(looks) >= LOOKS and time.monotonic() > least)
                or (len(looks) >= LOOKS and time.monotonic() > until)
            ),
            90 + SECONDS,
        )
        print(f"{len(looks)} looks, {sum(looks)} of them at the rates too")
        doomed.kill()
        reported_at = json.loads(stored.hget(doomed.identity, "activity"))["at"]
        beat_at = float(stored.hget(doomed.identity, "beat"))  # runs by class are written with each beat
        of_no_class = [note for note in ledger.notes(pid=doomed.pid) if note.time > beat_at - STARVED_SECONDS]
        unreported = [note for note in ledger.notes(pid=doomed.pid) if note.time > reported_at - STARVED_SECONDS]
    finally:
        workload.end()
    # Until the dead host is declared dead, its last report counts; the page shows how old that is.
    wait_for(lambda: len(rows(page("/fleet/processes"), "Processes")) == 2, 60)
    wait_for(lambda: len(short_runs(ledger)) == workload.pushed and is_at_rest(stored), 60)
    # A beat follows the write of what its worker counted.
    rested_at = time.time() + 1
    wait_for(lambda: all(float(stored.hget(worker.identity, "beat")) > rested_at for worker in living), 60)
    time.sleep(AGE_SECONDS)
    wait_for(lambda: page("/")["processed_per_second"] == 0, 60)
    compare_at_rest(page, ledger, config, workload.pushed, lost_counts=len(unreported), lost_of_class=len(of_no_class))


def short_runs(ledger) -> set[str]:
    return {note.word for note in ledger.notes() if note.event in {"done", "failed"} and note.word}


def is_at_rest(stored) -> bool:
    """No short job runs or waits; jobs of the dead host come back into the queue, and run once more."""
    seen = [stored.llen("queue:default") == 0 and no_short_job_runs(stored) for _ in range(3)]
    return all(seen)


def no_short_job_runs(stored) -> bool:
    return not any(b'"Short"' in raw for key in stored.keys("offsider:working:*") for raw in stored.lrange(key, 0, -1))


def in_top(config, path: str, table: int = 0) -> list[dict[str, str]]:
    """The texts of a table of `offsider top` by column."""
    server = Installation.of(config)
    tab = current_tab(server, path)
    assert tab is not None
    sheet = Address(server, tab, path.removeprefix(tab.path)).sheet(table)
    return [dict(zip(sheet.columns, row.cells, strict=True)) for row in sheet.rows]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def compare_while_it_runs(page, ledger, config, pushed_at: float) -> bool:
    """Compare moving numbers; returns whether rates could be compared as well."""
    before, now_page, now = time.time(), page("/"), time.time()
    totals = page("/stats")["sidekiq"]
    reported = counters_of(Installation.of(config))
    ended = time.time()
    notes = [note for note in ledger.notes() if note.event in {"done", "failed"}]
    steady = is_steady(notes, 3, before - WINDOW_SECONDS - STARVED_SECONDS, ended)
    if steady:
        assert_rate(now_page["processed_per_second"], notes, before, now)
        assert_rate(now_page["failed_per_second"], [note for note in notes if note.event == "failed"], before, now)
        assert_rate(reported["processed_per_second"], notes, before, ended)
        older = sum(note.time < before - STARVED_SECONDS for note in notes)
        assert older <= totals["processed"]  # a frozen worker reports later
    assert totals["processed"] <= len(notes)

    before, shown, now = time.time(), page("/fleet/processes/running"), time.time()
    running = rows(shown, "Running jobs")
    begun = {note.jid: float(note.word) for note in ledger.notes("begun")}
    ages = {job["JID"]: job["Running for"] for job in running if job["Class"] == "Long"}
    assert set(ages) == set(begun)
    for jid, at in begun.items():
        # A machine may freeze between the begin of a run and its note.
        assert before - at - 1.0 <= ages[jid] <= now - pushed_at + 1.0
    listed = [job["Running for"] for job in running]
    assert listed == sorted(listed, reverse=True)
    assert max(listed) == max(ages.values())
    assert {job["JID"] for job in in_top(config, "/fleet/processes/running") if job["CLASS"] == "Long"} == set(begun)
    return steady


def class_row(page) -> dict[str, Any]:
    (short,) = [row for row in rows(page("/class"), "Classes") if row["Class"] == "Short"]
    return short


def compare_at_rest(page, ledger, config, pushed: int, *, lost_counts: int, lost_of_class: int) -> None:
    ran = [note for note in ledger.notes() if note.event in {"done", "failed"}]
    words = Counter(int(note.word) for note in ran)
    assert set(words) == set(range(pushed)), "a job did not run"
    failed = [number for number in words if number % 100 < FAILING]
    dead = [number for number in failed if number % 100 < DYING]
    runs = len(ran)
    failures = sum(note.event == "failed" for note in ran)

    exact = {"busy": 3, "enqueued": PAUSED_JOBS, "scheduled": 0, "retries": len(failed) - len(dead), "dead": len(dead)}
    now_page = page("/")
    assert (now_page["waiting"], now_page["processes"]) == (PAUSED_JOBS, 2)
    assert (now_page["processed_per_second"], now_page["failed_per_second"]) == (0, 0)
    stats = page("/stats")["sidekiq"]
    assert {name: stats[name] for name in exact} == exact
    # A worker that is killed takes the counts since its last report along.
    assert runs - lost_counts <= stats["processed"] <= runs
    assert failures - lost_counts <= stats["failed"] <= failures
    counters = {name: stats[name] for name in ("processed", "failed")}
    reported = counters_of(Installation.of(config))
    assert {name: reported[name] for name in (*exact, *counters)} == exact | counters
    short = class_row(page)
    assert runs - lost_of_class <= short["Runs"] <= runs
    assert failures - lost_of_class <= short["Failed"] <= failures
    (short_in_top,) = [row for row in in_top(config, "/class") if row["CLASS"] == "Short"]
    assert (number(short_in_top["RUNS"]), number(short_in_top["FAILED"])) == (short["Runs"], short["Failed"])

    fleet = page("/fleet")
    processes, running = rows(fleet, "Processes"), rows(fleet, "Running jobs")
    assert (len(processes), sum(process["Busy"][0] for process in processes), len(running)) == (2, 3, 3)
    queues = rows(fleet, "Queues")
    assert {queue["Queue"]: (queue["Size"], bool(queue["Paused"])) for queue in queues} == {
        "asleep": (PAUSED_JOBS, True),
        "default": (0, False),
        "long": (0, False),
    }
    sizes = {row["Where"]: row["Jobs"] for row in rows(page("/jobs"), "Jobs")}
    expected = {"Running": 3, "Retries": exact["retries"], "Scheduled": 0, "Dead": exact["dead"]}
    assert {where: sizes[where] for where in expected} == expected
    assert sizes["Queue asleep"] == PAUSED_JOBS
    assert {row["WHERE"]: number(row["JOBS"]) for row in in_top(config, "/jobs")} == sizes
    groups = rows(page("/error"), "Errors")
    assert [(group["Class"], group["Error"]) for group in groups] == [("Short", "ValueError")]
    assert failures - lost_counts <= groups[0]["Runs"] <= failures
