"""Each record of offsider is written exactly once, whoever configures logging: read from the output of processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request

import pytest

from tests.process.stored import push
from tests.process.workers import ROOT
from tests.waiting import wait_for

SETUPS = {
    "nobody": "",
    "dictConfig": """
        logging.config.dictConfig({
            "version": 1,
            "handlers": {"console": {"class": "logging.StreamHandler"}},
            "root": {"handlers": ["console"], "level": "WARNING"},
        })
    """,
    "dictConfig that names the logger": """
        logging.config.dictConfig({
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"own": {
                "()": "logging.Formatter", "fmt": "own %(message)s %(fields)s", "defaults": {"fields": ""}
            }},
            "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "own"}},
            "loggers": {"offsider": {"handlers": ["console"], "level": "INFO", "propagate": False}},
        })
    """,
    "a console handler": """
        console = logging.StreamHandler(sys.stdout)
        console.setFormatter(logging.Formatter("own %(message)s %(fields)s", defaults={"fields": ""}))
        logging.getLogger("offsider").addHandler(console)
    """,
    "logging.disable": "logging.disable(logging.WARNING)",
    "Django": """
        import django.conf, django.utils.log
        django.conf.settings.configure()
        logging.config.dictConfig(django.utils.log.DEFAULT_LOGGING)
    """,
}
#: The application configures logging when it is imported, or later than any setup of ours.
APP = """
    import logging, logging.config, sys

    from offsider import job

    def set_up_logging():
    {setup}

    if {late}:
        def configure(config):
            config.on("startup", set_up_logging)
    else:
        set_up_logging()

    @job(name="Works")
    def works(): ...

    @job(name="Fails")
    def fails():
        raise ValueError("broken")

    def who(request):
        if {late} and request.path == "/fleet":
            set_up_logging()
        return request.header("x-user") or None

    def may(request, action):
        return action != "jobs.delete"
"""


def application(setup: str, *, late: bool) -> str:
    code = textwrap.indent(textwrap.dedent(SETUPS[setup]).strip() or "pass", "        ")
    return textwrap.dedent(APP.replace("    {setup}", code.replace("\n", "\n")).replace("{late}", str(late)))


LATE = "dictConfig that names the logger"
CASES = [(setup, setup == LATE) for setup in SETUPS]
IDS = [f"{setup}{', late' if late else ''}" for setup, late in CASES]


def counts(output: str, *patterns: str) -> dict[str, int]:
    return {pattern: len(re.findall(pattern, output)) for pattern in patterns}


@pytest.mark.parametrize("setup,late", CASES, ids=IDS)
def test_a_worker_writes_each_record_once(workers, stored, setup, late):
    push(stored, "Works")
    push(stored, "Fails", retry=3)
    worker = workers.start("-c", "1", text=application(setup, late=late), wait=False)
    wait_for(lambda: (stored.zcard("retry") == 1 and stored.llen("queue:default") == 0) or not worker.runs, 40)
    worker.until_says("failed (attempt")
    worker.send("TTIN")
    worker.until_says("MainThread")
    output = worker.stopped()
    own = "(?:: |own )"  # the end of our line, or the beginning of the application's
    expected = {f"{own}start": 2, f"{own}done": 1, f"{own}fail\\b": 1}
    expected |= dict.fromkeys([r"offsider \S+, Python", r"failed \(attempt 1 of 4,", "stopping: ", "MainThread"], 1)
    if setup == "logging.disable":  # warnings only
        expected = {name: int(name in {r"failed \(attempt 1 of 4,", "MainThread"}) for name in expected}
    assert counts(output, *expected) == expected, output


def test_the_processes_of_a_parent_write_each_record_once(workers, stored):
    worker = workers.start("-c", "1", "--processes", "2", text=application("dictConfig", late=False), wait=False)
    worker.until_says("running <Capsule", 40, times=2)
    push(stored, "Works")
    push(stored, "Fails", retry=3)
    worker.until_says(": done")  # each in a process of its own
    worker.until_says("failed (attempt")
    output = worker.stopped()
    expected = {": start": 2, ": done": 1, r": fail\b": 1, r"failed \(attempt 1 of 4,": 1, "offsider [^ ]+, Python": 2}
    assert counts(output, *expected) == expected, output


def status(url: str, user: str = "", *, post: bool = False, **headers: str) -> int:
    given = {"x-user": user, "sec-fetch-site": "same-origin"} | headers
    request = urllib.request.Request(url, b"" if post else None, given)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def use_pages(url: str) -> None:
    """Do one thing of each kind that has a line: an action, a failed one, and each kind of refusal."""
    assert status(f"{url}fleet", "kim") == 200
    assert status(f"{url}fleet/queues/mail/pause", "kim", post=True) == 200
    assert status(f"{url}job/retry/1-gone/retry", "kim", post=True) == 404
    assert status(f"{url}jobs/delete?where=queue:mail", "kim", post=True) == 403
    assert status(f"{url}fleet/queues/mail/resume", "kim", post=True, **{"sec-fetch-site": "cross-site"}) == 403
    assert status(f"{url}jobs") == 403
    assert status(f"{url}fleet", "kim", host="evil.example") == 403


def audited(output: str) -> list[tuple[str, str]]:
    """Action and path of each line of the audit log."""
    return sorted(re.findall(r"\baction(?:=|': ')([\w.]+).*?\btarget(?:=|': ')([^ ']+)", output))


PROMISED = sorted([
    ("queues.pause", "/fleet/queues/mail/pause"),
    ("job.retry", "/job/retry/1-gone/retry"),
    ("jobs.delete", "/jobs/delete"),
    ("queues.resume", "/fleet/queues/mail/resume"),
    ("page", "/jobs"),
    ("page", "/fleet"),
])  # fmt: skip


@pytest.mark.parametrize("setup, late", [("nobody", False), ("dictConfig", False), (LATE, True)])
def test_the_web_ui_writes_each_record_once(stored, url, tmp_path, setup, late):
    (tmp_path / "app.py").write_text(application(setup, late=late))
    (tmp_path / "offsider.toml").write_text('[log]\nlevel = "error"\n')  # not for the audit log
    stored.sadd("queues", "mail")
    options = ("--port", "0", "-r", "app", "--auth", "app:who", "--authorize", "app:may", "--allowed-host", "127.0.0.1")
    output = tmp_path / "web.log"
    environ = os.environ | {"REDIS_URL": url, "PYTHONPATH": str(ROOT / "src")}
    with output.open("wb") as file:
        command = (sys.executable, "-m", "offsider", "web", *options)
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environ, cwd=tmp_path)
    try:
        found = wait_for(lambda: re.search(r"web: (http://\S+)\n", output.read_text()) or process.poll(), 40)
        assert isinstance(found, re.Match), output.read_text()
        use_pages(found[1])
        wait_for(lambda: len(audited(output.read_text())) >= len(PROMISED), what=output.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    assert audited(output.read_text()) == PROMISED, output.read_text()
