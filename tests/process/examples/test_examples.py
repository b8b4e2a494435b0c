"""The examples, started by the commands of their READMEs: a job whose worker is killed runs again and finishes."""

from __future__ import annotations

import json
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from offsider.embedded.address import free_port
from tests.docs.snippets import ROOT, snippets
from tests.process.examples.terminal import Terminal
from tests.waiting import wait_for

EXAMPLES = ROOT / "examples"


class Example(Terminal):
    """One example in a folder of its own, with the commands of its README."""

    def __init__(self, name: str, folder: Path, url: str) -> None:
        shutil.copytree(EXAMPLES / name, folder)
        super().__init__(folder, REDIS_URL=url, REPORT_SECONDS="0.5")
        port = str(free_port())
        blocks = [each.text for each in snippets((folder / "README.md").read_text()) if each.language == "bash"]
        (self.setup, self.web, self.worker, self.create, self.show, self.kill) = (
            block.replace("8000", port) for block in blocks
        )

    def report(self) -> dict[str, object]:
        return json.loads(self.run(self.show))

    def answers(self) -> bool:
        with suppress(AssertionError):
            return "detail" in self.run(self.show) or True
        return False


@pytest.mark.parametrize("name", ["django", "fastapi", "flask"])
def test_a_job_of_a_killed_worker_runs_again_and_finishes(name, tmp_path, embedded_url):
    example = Example(name, tmp_path / name, embedded_url)
    try:
        example.run("\n".join(line for line in example.setup.splitlines() if not line.startswith("pip ")))
        example.start(example.web)
        first = example.start(example.worker, REPORT_SECONDS="60")
        wait_for(example.answers)
        created = json.loads(example.run(example.create))
        assert created == {"id": 1, "status": "pending"}
        wait_for(lambda: example.report()["status"] == "running")

        example.run(example.kill)
        assert first.wait() == -signal.SIGKILL
        example.start(example.worker)
        wait_for(lambda: example.report()["status"] == "done")

        report = example.report()
        assert report["runs"] == 2
        assert re.fullmatch(r"The report of 2026, built by job [0-9a-f]{24}\.", str(report["text"]))
        # The web UI is there, and asks for a password.
        port = re.search(r"localhost:(\d+)", example.create)[1]
        refused = example.run(f"curl -s -o /dev/null -w '%{{http_code}}' http://localhost:{port}/jobs/")
        if name == "django":  # its login page; tests/redis/django/test_app.py plays the login
            assert refused == "302"
            return
        shown = example.run(f"curl -s -u kim:'change me' http://localhost:{port}/jobs/queues")
        assert refused == "401"
        assert "reports" in shown
    finally:
        example.close()
