"""The jobs. Run twice, `build_report` writes the same report: a killed worker does no harm."""

import time

from database import Report, session
from flask import current_app

from offsider import current_job, job


@job(queue="reports", retry=5)
def build_report(report_id: int) -> None:
    report = session.get_one(Report, report_id)
    report.status = "running"
    report.runs += 1
    session.commit()
    time.sleep(current_app.config["REPORT_SECONDS"])  # the work
    report.status = "done"
    report.text = f"The report of {report.year}, built by job {current_job().jid}."
    session.commit()
