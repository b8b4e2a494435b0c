"""Every number of the pages, `offsider stats` and `offsider top` is compared with the jobs' own records.

A known workload runs: up to 2,000 short jobs a second of which 5 % fail, three long jobs, a paused queue, and three
workers, one of which dies with its host. While it runs, numbers that move are compared with the ledger of the seconds
they cover; afterwards every number has to be exact.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

import redis

from offsider.cli.stats import rendered
from offsider.cli.top.tabs import Home, View
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.storage.activity import RATE_SECONDS
from tests.process.ledger import Note
from tests.waiting import wait_for

PER_SECOND = 2_000
#: A machine that runs fewer than `PER_SECOND` gets no more jobs while this many wait.
MAX_WAITING = 1_000
LOOKS = 3
#: Longer than all phases of the test.
LONG_SECONDS = 3600.0
FAILING = 20  # each twentieth job fails
DYING = 40  # each fortieth is exhausted
PAUSED_JOBS = 123
WINDOW_SECONDS = 5.0
#: A report each second, and the cache time of a page in seconds.
AGE_SECONDS = 2.5
#: On a machine that starves a worker its last report counts for longer, see `RATE_SECONDS`.
STARVED_SECONDS = RATE_SECONDS + 1
#: A worker that finished nothing between two reports restarts its window, see `Rates.note`.
PAUSE_SECONDS = 0.8
FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "6"}
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
                args = [[n, n % FAILING == 0] for n in numbers if (n % DYING == 0) == dying]
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


def rates_of(times: list[float], now: float) -> list[float]:
    """One worker's true rates in all windows that a number shown at ``now`` may stand for."""
    ends = [now - STARVED_SECONDS * step / 60 for step in range(61)]
    return [(bisect_right(times, end) - bisect_right(times, end - WINDOW_SECONDS)) / WINDOW_SECONDS for end in ends]


def assert_rate(shown: float, notes: Sequence[Note], now: float) -> None:
    """Each worker reports at a time of its own."""
    true = [rates_of(times, now) for times in by_worker(notes)]
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
    for _ in range(3):
        client.push({"class": "Long", "queue": "long", "args": [LONG_SECONDS]})
    started = [
        workers.start("-c", "4", "-q", "default", "-q", "long", "-q", "asleep", text=APP, environ=FAST)
        for _ in range(3)
    ]
    wait_for(lambda: len(ledger.notes("begun")) == 3, 30)
    wait_for(lambda: len(page("/busy")["jobs"]) == 3, 30)  # the workers' next report
    workload = Workload(client, stored)
    workload.start()
    try:
        looks: list[bool] = []
        # Rates are comparable where no worker paused (see `is_steady`), which may be never on a starved machine.
        until = time.monotonic() + 60
        wait_for(
            lambda: (
                looks.append(compare_while_it_runs(page, ledger, config))
                or sum(looks) == LOOKS
                or (len(looks) >= LOOKS and time.monotonic() > until)
            ),
            90,
        )
        print(f"{len(looks)} looks, {sum(looks)} of them at the rates too")
        doomed, *_ = (each for each in started if each.pid not in {note.pid for note in ledger.notes("begun")})
        doomed.kill()
        reported_at = json.loads(stored.hget(doomed.identity, "activity"))["at"]
        unreported = [note for note in ledger.notes(pid=doomed.pid) if note.time > reported_at - STARVED_SECONDS]
    finally:
        workload.end()
    # Until the dead host is declared dead, its last report counts; the page shows how old that is.
    wait_for(lambda: page("/busy")["totals"]["processes"] == 2, 60)
    wait_for(lambda: len(short_runs(ledger)) == workload.pushed and is_at_rest(stored), 60)
    time.sleep(AGE_SECONDS)
    wait_for(lambda: page("/")["rates"]["processed"] == 0, WINDOW_SECONDS + 2 * AGE_SECONDS)
    compare_at_rest(page, ledger, config, workload.pushed, lost_counts=len(unreported))


def short_runs(ledger) -> set[str]:
    return {note.word for note in ledger.notes() if note.event in {"done", "failed"} and note.word}


def is_at_rest(stored) -> bool:
    """No short job runs or waits; jobs of the dead host come back into the queue, and run once more."""
    seen = [stored.llen("queue:default") == 0 and no_short_job_runs(stored) for _ in range(3)]
    return all(seen)


def no_short_job_runs(stored) -> bool:
    return not any(b'"Short"' in raw for key in stored.keys("offsider:working:*") for raw in stored.lrange(key, 0, -1))


def compare_while_it_runs(page, ledger, config) -> bool:
    """Compare moving numbers; returns whether rates could be compared as well."""
    before, board, now = time.time(), page("/"), time.time()
    home = Home(Installation.of(config)).read(View())
    reported = json.loads(rendered("overview", Installation.of(config), as_json=True))
    ended = time.time()
    notes = [note for note in ledger.notes() if note.event in {"done", "failed"}]
    steady = is_steady(notes, 3, before - WINDOW_SECONDS - STARVED_SECONDS, ended)
    if steady:
        assert_rate(board["rates"]["processed"], notes, now)
        assert_rate(board["rates"]["failed"], [note for note in notes if note.event == "failed"], now)
        assert_rate(home.samples[-1], notes, ended)
        assert_rate(reported["processed_per_second"], notes, ended)
    older = sum(note.time < before - STARVED_SECONDS for note in notes)
    assert older <= board["stats"]["processed"] <= len(notes)

    before, busy, now = time.time(), page("/busy"), time.time()
    begun = {note.jid: float(note.word) for note in ledger.notes("begun")}
    ages = {job["jid"]: job["elapsed_seconds"] for job in busy["jobs"] if job["name"] == "Long"}
    assert set(ages) == set(begun)
    for jid, at in begun.items():
        assert before - at - 1.0 <= ages[jid] <= now - at + 1.0
    listed = [job["elapsed_seconds"] for job in busy["jobs"]]
    assert listed == sorted(listed, reverse=True)
    assert max(listed) == max(ages.values())
    return steady


def compare_at_rest(page, ledger, config, pushed: int, *, lost_counts: int) -> None:
    ran = [note for note in ledger.notes() if note.event in {"done", "failed"}]
    words = Counter(int(note.word) for note in ran)
    assert set(words) == set(range(pushed)), "a job did not run"
    failed = [number for number in words if number % FAILING == 0]
    dead = [number for number in failed if number % DYING == 0]
    runs = len(ran)
    failures = sum(note.event == "failed" for note in ran)

    board = page("/")
    exact = {"busy": 3, "enqueued": PAUSED_JOBS, "scheduled": 0, "retries": len(failed) - len(dead), "dead": len(dead)}
    assert {name: board["stats"][name] for name in exact} == exact
    # A worker that is killed takes the counts since its last report along.
    assert runs - lost_counts <= board["stats"]["processed"] <= runs
    assert failures - lost_counts <= board["stats"]["failed"] <= failures
    assert (board["rates"]["processed"], board["rates"]["silent_processes"]) == (0, 0)

    counters = {name: board["stats"][name] for name in ("processed", "failed")}
    reported = json.loads(rendered("overview", Installation.of(config), as_json=True))
    assert {name: reported[name] for name in (*exact, *counters)} == exact | counters
    stats = page("/stats")["sidekiq"]
    assert {name: stats[name] for name in (*exact, *counters)} == exact | counters
    facts = {row.cells[0]: row.cells[1] for row in Home(Installation.of(config)).read(View()).rows}
    assert facts["Processed"] == f"{counters['processed']:,}  0.0 / s"
    assert facts["Busy"] == "3 jobs of 2 workers"
    assert (facts["Enqueued"], facts["Retries"]) == (f"{PAUSED_JOBS:,}", f"{exact['retries']:,}")
    assert facts["Dead"] == f"{exact['dead']:,}"

    busy = page("/busy")
    assert (busy["totals"]["processes"], busy["totals"]["busy"], busy["running"], busy["just_begun"]) == (2, 3, 3, 0)
    queues = {queue["name"]: queue for queue in page("/queues")["queues"]}
    assert {name: (queue["size"], queue["paused"]) for name, queue in queues.items()} == {
        "asleep": (PAUSED_JOBS, True),
        "default": (0, False),
        "long": (0, False),
    }
    assert page("/retries")["size"] == exact["retries"]
    assert page("/dead")["size"] == exact["dead"]
    groups = page("/errors")["groups"]
    assert [(group["name"], group["error_class"]) for group in groups] == [("Short", "ValueError")]
    assert failures - lost_counts <= groups[0]["count"] <= failures
