"""What a migration counts."""

from __future__ import annotations

from offsider.inspector.migration.judge import Stays, Why
from offsider.inspector.migration.report import OTHERS, MigrationReport, Relocation
from offsider.storage.job_sets import MoveResult


def count(report, job):
    report.count("queue", [job], [MoveResult.DONE])


def test_the_moved_count_is_the_sum_of_all_routes():
    report = MigrationReport()
    report.relocations[Relocation("A", "queue", "main", "old", "main", "new")] += 2
    report.relocations[Relocation("A", "retry", "main", "old", "main", "new")] += 1
    assert report.moved == 3
    assert report.complete


def test_names_are_counted_separately_up_to_a_limit():
    report = MigrationReport()
    for number in range(1_005):
        count(report, Stays(Why.UNDECLARED, f"Ruby::Job{number}"))
    count(report, Stays(Why.UNDECLARED, "Ruby::Job7"))
    assert len(report.undeclared) == 1_001
    assert report.undeclared[OTHERS] == 5
    assert report.undeclared["Ruby::Job7"] == 2


def test_reports_add_up_but_for_the_jobs_that_moved():
    total, page = MigrationReport(), MigrationReport()
    for why in (Why.UNDECLARED, Why.UNDECLARED, Why.IN_PLACE, Why.UNREADABLE, Why.NOT_SELECTED):
        count(page, Stays(why, "Ruby::Job"))
    for _ in range(2):
        total.add(page)
    assert (total.looked_at, total.in_place, total.unreadable) == (10, 2, 2)
    assert total.undeclared == {"Ruby::Job": 4}
