"""The jobs. Run twice, `build_report` writes the same report: a killed worker does no harm."""

import os
import time

from database import Report, engine, get_session
from fastapi import Depends
from sqlalchemy.orm import Session

from offsider import current_job, job
from offsider.fastapi import inject

SECONDS = float(os.environ.get("REPORT_SECONDS", "10"))


@job(queue="reports", retry=5)
@inject
def build_report(report_id: int, session: Session = Depends(get_session)) -> None:
    # Visible at once, in a transaction of its own; the rest is committed when the job has succeeded.
    with Session(engine) as at_once, at_once.begin():
        started = at_once.get_one(Report, report_id)
        started.status = "running"
        started.runs += 1
    time.sleep(SECONDS)  # the work
    report = session.get_one(Report, report_id)
    report.status = "done"
    report.text = f"The report of {report.year}, built by job {current_job().jid}."
