"""The page "The first hour", played: its files are written, its commands run, its lines counted.

A job, a view and a login are the application's own; a line that is there only because of offsider is marked as glue.
"""

from __future__ import annotations

import ast
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from offsider.embedded.folder import free_port
from tests.docs.snippets import ROOT, Snippet, snippets
from tests.process.examples.terminal import Terminal
from tests.tagged import client_of
from tests.waiting import wait_for

PAGE = ROOT / "docs" / "internals" / "first-hour.md"
GLUE = re.compile(r" +# glue$", re.MULTILINE)
#: Maximum lines of glue code.
MAX_GLUE = {"an-empty-folder": 0, "django": 10, "fastapi": 6, "flask": 6}


@dataclass(frozen=True)
class Row:
    """The row of a section in the table at the top of the page."""

    commands: int
    glue: int
    seconds: float


def row_of(section: str) -> Row:
    found = re.search(rf"^\|[^|]*\(#{section}\) \|[^|]*\| (\d+) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    assert found, section
    return Row(int(found[1]), int(found[2]), float(found[3]))


def blocks_of(section: str) -> list[Snippet]:
    heading = section.replace("-", " ")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL | re.IGNORECASE)
    assert found, section
    return snippets(found[1])


class Hour(Terminal):
    """One section, played in an empty folder."""

    def __init__(self, section: str, folder: Path, url: str | None) -> None:
        super().__init__(folder, **({} if url is None else {"REDIS_URL": url}))
        self.section = section
        self.port = str(free_port())
        self.url = f"http://localhost:{self.port}/"
        self.began = time.monotonic()

    def play(self) -> None:
        """Write the files and run the commands. The last blocks start the servers, and push."""
        commands = [block for block in blocks_of(self.section) if block.language == "bash"]
        started = commands[-3:-1] if self.section != "an-empty-folder" else commands[:1]
        for block in blocks_of(self.section):
            if block.word == "file":
                self._write(block)
            elif block in started:
                self.start(block.text.replace("8000", self.port))
            else:
                if block == commands[-1]:
                    wait_for(lambda: "running <Capsule" in self.log, what="the worker runs")
                    if len(started) > 1:
                        wait_for(self._serves, what="the web server answers")
                self.run(block.text.replace("8000", self.port))

    def _write(self, block: Snippet) -> None:
        """Append to the file of the framework, or create a new one."""
        file = self.folder / block.rest.partition("/")[2]
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as text:
            text.write(f"\n\n{block.text}" if text.tell() else block.text)

    def _serves(self) -> bool:
        try:
            return httpx.get(self.url, trust_env=False).status_code > 0
        except httpx.TransportError:
            return False

    def browser(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, follow_redirects=True, trust_env=False, timeout=60)


@pytest.fixture
def hour(request: pytest.FixtureRequest, tmp_path: Path, embedded_url: str) -> Iterator[Hour]:
    section = request.param
    played = Hour(section, tmp_path, None if section == "an-empty-folder" else embedded_url)
    try:
        played.play()
        yield played
        seconds = time.monotonic() - played.began
        row = row_of(section)
        output = f"{section}: {row.commands} commands, {row.glue} lines of glue, {seconds:.1f} s"
        request.node.user_properties.append(("first hour", output))
    finally:
        played.close()


def processed(url: str) -> int:
    with client_of(url) as client:
        return int(client.get("stat:processed") or 0)


@pytest.mark.parametrize("hour", ["an-empty-folder"], indirect=True)
def test_from_an_empty_folder_to_a_job_that_a_worker_runs(hour):
    wait_for(lambda: "Welcome, ada!" in hour.log)


@pytest.mark.parametrize("hour", ["django"], indirect=True)
def test_from_an_empty_django_project_to_a_job_after_the_commit_and_the_web_ui(hour, embedded_url):
    def welcomed() -> list[tuple[str, str]]:
        with closing(sqlite3.connect(hour.folder / "db.sqlite3", timeout=60)) as database:
            rows = "select username, first_name from auth_user where username != 'kim'"
            return database.execute(rows).fetchall()

    wait_for(lambda: welcomed() == [("ada", "Welcomed")])  # and 4711 was rolled back
    wait_for(lambda: processed(embedded_url) == 1)
    with hour.browser() as browser:
        login = browser.get("/jobs/")
        assert login.url.path == "/admin/login/"
        form = {
            "username": "kim",
            "password": "secret",
            "next": "/jobs/",
            "csrfmiddlewaretoken": browser.cookies["csrftoken"],
        }
        page = browser.post(str(login.url), data=form)
        assert (page.status_code, page.url.path) == (200, "/jobs/")
        stats = browser.get("/jobs/stats").json()["sidekiq"]
        assert (stats["processed"], stats["enqueued"], stats["failed"]) == (1, 0, 0)


@pytest.mark.parametrize("hour", ["fastapi", "flask"], indirect=True)
def test_from_an_empty_application_to_a_job_and_the_web_ui(hour, embedded_url):
    wait_for(lambda: "Welcome, ada!" in hour.log)
    wait_for(lambda: processed(embedded_url) == 1)
    with hour.browser() as browser:
        assert browser.get("/jobs/").status_code == 401
        stats = browser.get("/jobs/stats", auth=("kim", "secret")).json()["sidekiq"]
        assert stats["processed"] == 1


@pytest.mark.parametrize("section", MAX_GLUE)
def test_the_table_has_the_commands_and_the_lines_of_glue(section):
    blocks = blocks_of(section)
    commands = sum(len(block.text.splitlines()) for block in blocks if block.language == "bash")
    glue = sum(len(GLUE.findall(block.text)) for block in blocks)
    row = row_of(section)
    assert (row.commands, row.glue) == (commands, glue)
    assert glue <= MAX_GLUE[section]


@pytest.mark.parametrize("section", MAX_GLUE)
def test_every_line_that_needs_offsider_is_marked_as_glue(section):
    for block in blocks_of(section):
        if block.word != "file" or "mails.py" in block.rest or "jobs.py" in block.rest:
            continue  # the job itself
        glue = [line for line in block.text.splitlines() if GLUE.search(line)]
        imports = [node for line in glue if "import" in line for node in ast.walk(ast.parse(line.strip()))]
        names = {alias.name for node in imports if isinstance(node, ast.ImportFrom) for alias in node.names}
        needs = re.compile(rf"\b(?:{'|'.join({'offsider', 'offsider_inline', *names})})\b", re.IGNORECASE)
        rest = [line for line in block.text.splitlines() if line not in glue]
        assert [line for line in rest if needs.search(line)] == []
