"""Runs, failures and seconds per minute, class and release: each face shows what the jobs themselves noted.

Two workers of two releases run jobs and are stopped in the middle of a minute, which loses nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import pytest

from offsider.cli.stats import counters as counters_of
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.fleet.metrics import read_families
from offsider.inspector import JobMetrics
from tests.process.ledger import Ledger, Note
from tests.waiting import wait_for

CLASSES = ("Fine", "Faulty")
JOBS = 60
#: From the note of a job to the end of its run, as the worker counts it.
LATE_SECONDS = 6.0
APP = """
    import time
    from offsider import current_job, job
    from tests.process.ledger import note

    def work(fails: bool, release: str):
        started = time.perf_counter()
        time.sleep(0.01)
        note("failed" if fails else "done", current_job().name, f"{release} {time.perf_counter() - started}")
        if fails:
            raise ValueError("on purpose")

    @job(name="Fine", retry=False)
    def fine(release: str):
        work(False, release)

    @job(name="Faulty", retry=False)
    def faulty(number: int, release: str):
        work(number % 3 == 0, release)

    @job(name="Long", retry=False)
    def long(release: str):
        note("begun", "Long")
        time.sleep(3600)
"""


@pytest.fixture
def run(workers, config, ledger):
    """Run the same jobs in a worker with this release, stop it, and return how long its two threads had."""
    client = Client(config)

    def run(release: str) -> float:
        worker = workers.start("-c", "2", "-q", release, text=APP, environ={"OFFSIDER_CLIENT_APP_VERSION": release})
        began = time.monotonic()
        client.push_bulk({"class": "Fine", "queue": release, "args": [[release]] * JOBS})
        client.push_bulk({"class": "Faulty", "queue": release, "args": [[n, release] for n in range(JOBS)]})
        wait_for(lambda: len(of_release(ledger, release)) == 2 * JOBS, 60)
        worker.stopped()
        return 2 * (time.monotonic() - began)

    return run


def of_release(ledger: Ledger, release: str, name: str | None = None) -> list[Note]:
    """The notes of ended runs; the event is their result, and the jid their class."""
    notes = [note for note in ledger.notes() if note.word.startswith(f"{release} ")]
    return [note for note in notes if name in (None, note.jid)]


def seconds_of(notes: Sequence[Note]) -> float:
    return sum(float(note.word.split()[1]) for note in notes)


def failures_of(notes: Sequence[Note]) -> int:
    return sum(note.event == "failed" for note in notes)


def prometheus(config) -> dict[tuple[str, ...], float]:
    families = read_families(Installation.of(config))
    return {
        (family.name, *(sample.labels[label] for label in ("class", "release") if label in sample.labels)): sample.value
        for family in families
        for sample in family.samples
        if not sample.suffix
    }


def rows_of(page, title: str) -> list[dict[str, object]]:
    """The rows of a table by the names of its columns."""
    (table,) = [block for block in page["blocks"] if block["title"] == title and block["is"] == "table"]
    return [
        {name: cell.get("value", cell.get("text")) for name, cell in zip(table["columns"], row, strict=True)}
        for row in table["rows"]
    ]


def compare_minutes(config, ledger, name: str) -> None:
    """Each run is in the minute in which it ended."""
    shown: Counter[float] = Counter()
    failed: Counter[float] = Counter()
    for at, runs in JobMetrics.of(name, config=config).runs:
        shown[at] += runs.processed
        failed[at] += runs.failed
    notes = [note for note in ledger.notes() if note.jid == name]
    starts = {note.time // 60 * 60 for note in notes} | {(note.time + LATE_SECONDS) // 60 * 60 for note in notes}
    assert set(shown) <= starts
    assert shown.total() == len(notes)
    assert failed.total() == failures_of(notes)
    for at in starts:
        surely = sum(at <= note.time < at + 60 - LATE_SECONDS for note in notes)
        perhaps = sum(at - LATE_SECONDS <= note.time < at + 60 for note in notes)
        assert surely <= shown[at] <= perhaps


def test_every_face_shows_the_runs_of_stopped_workers(run, config, ledger, page):
    most = {release: run(release) for release in ("r1", "r2")}
    scraped = prometheus(config)
    for name in CLASSES:
        compare_minutes(config, ledger, name)
        releases = {one["Release"]: one for one in rows_of(page(f"/class/{name}"), "Releases")}
        assert list(releases) in (["r2", "r1"], ["r1", "r2"])
        total = 0.0
        for release, shown in releases.items():
            notes = of_release(ledger, release, name)
            assert (shown["Runs"], shown["Failed"]) == (JOBS, failures_of(notes))
            # The worker also counts the time around the body of a job.
            assert seconds_of(notes) <= shown["Seconds"] <= most[release]
            assert scraped["sidekiq_release_processed_total", name, release] == JOBS
            assert scraped["sidekiq_release_failed_total", name, release] == failures_of(notes)
            assert scraped["sidekiq_release_seconds_total", name, release] == pytest.approx(shown["Seconds"], abs=0.01)
            total += shown["Seconds"]
        row = next(row for row in rows_of(page("/class"), "Classes") if row["Class"] == name)
        failures = failures_of([note for note in ledger.notes() if note.jid == name])
        assert (row["Runs"], row["Failed"]) == (2 * JOBS, failures)
        assert scraped["sidekiq_job_processed", name] == 2 * JOBS
        assert scraped["sidekiq_job_failed", name] == failures
        assert scraped["sidekiq_job_execution_time_seconds", name] == pytest.approx(total, abs=0.01)
    counters = {"processed": 4 * JOBS, "failed": failures_of(ledger.notes())}
    overview = counters_of(Installation.of(config))
    assert {name: overview[name] for name in counters} == counters
    assert {name: page("/stats")["sidekiq"][name] for name in counters} == counters
