"""The web application."""

import os
import secrets
from typing import Annotated

from database import Report, engine
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from jobs import build_report
from sqlalchemy.orm import Session

from offsider.fastapi import CallerId, lifespan, pages

PASSWORD = os.environ.get("ADMIN_PASSWORD", "change me")


def admin(credentials: Annotated[HTTPBasicCredentials, Depends(HTTPBasic())]) -> str:
    if not secrets.compare_digest(credentials.password.encode(), PASSWORD.encode()):
        raise HTTPException(401, headers={"www-authenticate": "Basic"})
    return credentials.username


app = FastAPI(title="Reports", lifespan=lifespan())
app.add_middleware(CallerId)
app.include_router(pages(admin), prefix="/jobs")


@app.post("/reports/{year}", status_code=202)
def create(year: int) -> dict[str, int | str]:
    # The job may start before this request ends, so the row is committed before the push.
    with Session(engine) as session:
        report = Report(year=year)
        session.add(report)
        session.commit()
        build_report.enqueue(report.id)
        return {"id": report.id, "status": report.status}


@app.get("/reports/{report_id}")
def show(report_id: int) -> dict[str, int | str]:
    with Session(engine) as session:
        report = session.get(Report, report_id)
        if report is None:
            raise HTTPException(404)
        return {"id": report.id, "status": report.status, "runs": report.runs, "text": report.text}
