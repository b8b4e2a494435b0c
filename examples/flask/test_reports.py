"""The test of the application: a request pushes the job, which builds the report."""

from collections.abc import Iterator

import pytest
from app import create_app
from database import Base, engine
from flask.testing import FlaskClient
from jobs import build_report

from offsider.testing import Recorder


@pytest.fixture
def client() -> Iterator[FlaskClient]:
    Base.metadata.create_all(engine)
    yield create_app().test_client()
    Base.metadata.drop_all(engine)


def test_a_report_is_built(client: FlaskClient, offsider_fake: Recorder) -> None:
    created = client.post("/reports/2026").get_json()
    offsider_fake.assert_enqueued(build_report, created["id"])
    offsider_fake.drain()
    shown = client.get(f"/reports/{created['id']}").get_json()
    assert (shown["status"], shown["runs"]) == ("done", 1)


def test_the_web_ui_asks_for_a_password(client: FlaskClient) -> None:
    assert client.get("/jobs/").status_code == 401
