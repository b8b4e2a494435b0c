"""The web application. `flask init-db` creates the tables."""

import os
import secrets

import click
from database import Base, Report, engine, session
from flask import Flask, Response, abort, request
from jobs import build_report

from offsider.flask import Offsider, pages

offsider = Offsider()


def admin() -> str | Response:
    given = request.authorization
    password = os.environ.get("ADMIN_PASSWORD", "change me")
    if given is None or not secrets.compare_digest((given.password or "").encode(), password.encode()):
        return Response("Log in.", 401, {"www-authenticate": "Basic"})
    return given.username or "admin"


def create_app() -> Flask:
    app = Flask(__name__)
    app.config["REPORT_SECONDS"] = float(os.environ.get("REPORT_SECONDS", "10"))
    app.config["OFFSIDER"] = {"worker": {"queues": ["reports"]}}
    offsider.init_app(app)
    app.register_blueprint(pages(admin), url_prefix="/jobs")

    @app.teardown_appcontext  # after each request and each job
    def remove_session(_error: BaseException | None) -> None:
        session.remove()

    @app.cli.command("init-db")
    def init_db() -> None:
        Base.metadata.create_all(engine)
        click.echo("The tables exist.")

    @app.post("/reports/<int:year>")
    def create(year: int) -> tuple[dict[str, int | str], int]:
        # The job may start before this request ends, so the row is committed before the push.
        report = Report(year=year)
        session.add(report)
        session.commit()
        build_report.enqueue(report.id)
        return {"id": report.id, "status": report.status}, 202

    @app.get("/reports/<int:report_id>")
    def show(report_id: int) -> dict[str, int | str]:
        report = session.get(Report, report_id) or abort(404)
        return {"id": report.id, "status": report.status, "runs": report.runs, "text": report.text}

    return app
