"""The test of the application: a request pushes the job, which builds the report."""

from collections.abc import Iterator

import pytest
from app import app
from database import Base, engine
from fastapi.testclient import TestClient
from jobs import build_report

from offsider.testing import Recorder


@pytest.fixture
def client() -> Iterator[TestClient]:
    Base.metadata.create_all(engine)
    with TestClient(app) as client:
        yield client
    Base.metadata.drop_all(engine)


def test_a_report_is_built(client: TestClient, offsider_fake: Recorder) -> None:
    created = client.post("/reports/2026").json()
    offsider_fake.assert_enqueued(build_report, created["id"])
    offsider_fake.drain()
    shown = client.get(f"/reports/{created['id']}").json()
    assert (shown["status"], shown["runs"]) == ("done", 1)


def test_the_web_ui_asks_for_a_password(client: TestClient) -> None:
    assert client.get("/jobs/").status_code == 401
