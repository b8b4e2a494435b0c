"""What a migration counts."""

from __future__ import annotations

from offsider.inspector.migration.report import OTHERS, MigrationReport, Relocation


def test_what_has_moved_is_the_sum_of_all_ways():
    report = MigrationReport()
    report.relocations[Relocation("A", "queue", "main", "old", "main", "new")] += 2
    report.relocations[Relocation("A", "retry", "main", "old", "main", "new")] += 1
    assert report.moved == 3
    assert report.complete


def test_so_many_names_are_told_apart():
    report = MigrationReport()
    for number in range(1_005):
        report.note_undeclared(f"Ruby::Job{number}")
    report.note_undeclared("Ruby::Job7")
    assert len(report.undeclared) == 1_001
    assert report.undeclared[OTHERS] == 5
    assert report.undeclared["Ruby::Job7"] == 2
