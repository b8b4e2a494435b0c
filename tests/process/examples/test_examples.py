"""The examples, started by the commands of their READMEs: a job whose worker is killed runs again and finishes."""

from __future__ import annotations

import json
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from offsider.embedded.folder import free_port
from tests.docs.snippets import ROOT, snippets
from tests.process.examples.terminal import Terminal
from tests.waiting import wait_for

EXAMPLES = ROOT / "examples"


class Example(Terminal):
    """One example in a folder of its own, with the commands of its README."""

    def __init__(self, name: str, folder: Path, **environ: str) -> None:
        shutil.copytree(EXAMPLES / name, folder)
        super().__init__(folder, REPORT_SECONDS="0.5", **environ)
        port = str(free_port())
        blocks = [each.text for each in snippets((folder / "README.md").read_text()) if each.language == "bash"]
        (self.setup, self.web, self.worker, self.create, self.show, self.kill, self.test) = (
            "\n".join(line for line in block.replace("8000", port).splitlines() if not line.startswith("pip "))
            for block in blocks
        )

    def report(self) -> dict[str, object]:
        return json.loads(self.run(self.show))

    def answers(self) -> bool:
        with suppress(AssertionError):
            return "detail" in self.run(self.show) or True
        return False


@pytest.fixture
def postgresql(request, postgresql_host):
    """The environment that selects an empty database of PostgreSQL."""
    name = f"example_{uuid4().hex}"
    with psycopg.connect(host=postgresql_host, user="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    driver = "postgresql" if request.node.callspec.params["name"] == "django" else "postgresql+psycopg"
    # libpq reads the folder of the socket from PGHOST.
    return {"DATABASE_URL": f"{driver}://postgres@/{name}", "PGHOST": postgresql_host}


@pytest.mark.parametrize("name", ["django", "fastapi", "flask"])
def test_its_own_test_passes(name, tmp_path):
    example = Example(name, tmp_path / name, REDIS_URL="redis://127.0.0.1:1")
    try:
        example.run(example.test)
    finally:
        example.close()


@pytest.mark.parametrize("name, database", [("django", "postgresql"), ("fastapi", "postgresql"), ("flask", "sqlite")])
def test_a_job_of_a_killed_worker_runs_again_and_finishes(name, database, tmp_path, embedded_url, request):
    environ = request.getfixturevalue("postgresql") if database == "postgresql" else {}
    example = Example(name, tmp_path / name, REDIS_URL=embedded_url, **environ)
    try:
        example.run(example.setup)
        example.start(example.web)
        first = example.start(example.worker, REPORT_SECONDS="600")
        wait_for(example.answers)
        created = json.loads(example.run(example.create))
        assert created == {"id": 1, "status": "pending"}
        wait_for(lambda: example.report()["status"] == "running")

        example.run(example.kill)
        assert first.wait() == 128 + signal.SIGKILL
        example.start(example.worker)
        wait_for(lambda: example.report()["status"] == "done")

        assert (tmp_path / name / "reports.db").exists() == (database == "sqlite")
        report = example.report()
        assert report["runs"] == 2
        assert re.fullmatch(r"The report of 2026, built by job [0-9a-f]{24}\.", str(report["text"]))
        # The web UI is there, and asks for a password.
        port = re.search(r"localhost:(\d+)", example.create)[1]
        refused = example.run(f"curl -s -o /dev/null -w '%{{http_code}}' http://localhost:{port}/jobs/")
        if name == "django":  # its login page; tests/redis/django/test_app.py plays the login
            assert refused == "302"
            return
        shown = example.run(f"curl -s -u kim:'change me' http://localhost:{port}/jobs/fleet")
        assert refused == "401"
        assert "reports" in shown
    finally:
        example.close()
