"""What a running job asks of the extension of results."""

from __future__ import annotations

from decimal import Decimal

import pytest

from offsider import InvalidArguments
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


@pytest.mark.parametrize("control", [None, Control()], ids=["without the extension", "with it"])
@pytest.mark.parametrize(
    "report, text",
    [
        ((Decimal(5), 10), r"X: progress\(done=…\) must be a finite int or float, got Decimal"),
        ((float("nan"),), r"progress\(done=…\) must be a finite int or float, got nan"),
        ((10**400,), r"progress\(done=…\) must be a finite int or float, got int"),
        ((1, "10"), r"progress\(total=…\) must be a finite int or float, got str"),
        ((1, float("inf")), r"progress\(total=…\) must be a finite int or float, got inf"),
        ((1, None, b"reads"), r"progress\(message=…\) must be a str, got bytes"),
    ],
)
def test_a_report_that_is_not_json_is_an_error_of_the_job(control, report, text):
    job = JobContext({"class": "X", "args": []}, "default")
    job.control = control
    with pytest.raises(InvalidArguments, match=text):
        job.progress(*report)
    assert control is None or control.reports == []
