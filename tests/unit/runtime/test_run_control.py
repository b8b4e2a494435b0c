"""What a running job asks of the extension of results."""

from __future__ import annotations

from offsider.runtime.context import JobContext


class Control:
    def __init__(self):
        self.reports = []

    def asked_to_stop(self):
        return True

    def progress(self, *report):
        self.reports.append(report)


def test_without_the_extension_a_job_is_never_cancelled_and_reports_nothing():
    job = JobContext({"class": "X", "args": []}, "default")
    assert job.cancelled is False
    job.progress(1, 2)


def test_with_the_extension_it_is_consulted():
    job = JobContext({"class": "X", "args": []}, "default")
    job.control = Control()
    assert job.cancelled is True
    job.progress(1)
    job.progress(2, 10, "reads")
    assert job.control.reports == [(1, None, ""), (2, 10, "reads")]
