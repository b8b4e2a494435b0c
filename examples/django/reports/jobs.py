"""The jobs. Run twice, `build_report` writes the same report: a killed worker does no harm."""

import time

from django.conf import settings
from django.db.models import F

from offsider import current_job, job
from reports.models import Report


@job(queue="reports", retry=5)
def build_report(report_id: int) -> None:
    reports = Report.objects.filter(pk=report_id)
    reports.update(status="running", runs=F("runs") + 1)
    time.sleep(settings.REPORT_SECONDS)  # the work
    year = reports.get().year
    reports.update(status="done", text=f"The report of {year}, built by job {current_job().jid}.")
