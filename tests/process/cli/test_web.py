"""``offsider web`` as a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.process.workers import ROOT
from tests.waiting import wait_for

COMMAND = (sys.executable, "-m", "offsider", "web", "--port", "0")


@pytest.fixture
def start(embedded_url, tmp_path):
    """start(*options, **environment): a process and the address it prints."""
    started = []

    def run(*options, **environment):
        output = tmp_path / f"web{len(started)}.log"
        environ = os.environ | {"REDIS_URL": embedded_url, "PYTHONPATH": str(ROOT / "src")} | environment
        with output.open("wb") as file:
            process = subprocess.Popen((*COMMAND, *options), stdout=file, stderr=file, env=environ, cwd=tmp_path)
        started.append(process)
        found = wait_for(
            lambda: re.search(r"offsider web: (http://\S+)\n", output.read_text()) or process.poll() is not None, 40
        )
        assert found is not True, output.read_text()
        return process, found[1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def refused(*options, **environment):
    """Its output when it does not start."""
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")} | environment
    ended = subprocess.run((*COMMAND, *options), capture_output=True, text=True, env=environ, check=False, timeout=60)
    assert ended.returncode == 1
    return ended.stderr


def status(url, **headers):
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:  # CPython 3.14 warns if it is not closed
            return error.code


def test_with_a_password_it_serves_any_address(start):
    _, url = start("--host", "0.0.0.0", "--read-only", OFFSIDER_WEB_USER="kim", OFFSIDER_WEB_PASSWORD="sesame")
    assert status(url) == 401
    assert status(url, authorization="Basic a2ltOnNlc2FtZQ==") == 200


def test_the_application_may_bring_hooks_and_tabs(start, tmp_path):
    (tmp_path / "shop.py").write_text(
        "from offsider.config.web_tab import WebPage, WebTab\n"
        "def configure(config):\n"
        "    config.add_web_tab(WebTab('shop', 'Shop', '/shop', {'': lambda request: WebPage('Shop', [])}))\n"
        "def who(request):\n"
        "    return request.header('x-user')\n"
    )
    _, url = start("-r", "shop", "--auth", "shop:who", "--host", "0.0.0.0", "--root-path", "/jobs")
    assert status(f"{url}shop") == 403
    assert status(f"{url}shop", x_user="kim") == 200


def test_it_serves_all_servers_of_the_configuration_until_ctrl_c(start, tmp_path):
    text = '[servers.other]\nurl = "redis://127.0.0.1:1/0"\n[shards.far]\nqueues = ["a"]\nserver = "other"\n'
    (tmp_path / "offsider.toml").write_text(text)
    process, url = start()
    assert status(url) == 200
    assert status(url, host="evil.com") == 403
    assert status(f"{url}servers") == status(f"{url}shards") == 200
    assert status(f"{url}@other/") == 503
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    "options,why",
    [
        (("--auth", "nowhere:who"), "--auth nowhere:who"),
        (("--server", "main"), "--server expects NAME=URL"),
        (("-r", "nowhere"), "cannot load nowhere"),
    ],
)
def test_invalid_options_are_refused_with_the_reason(options, why):
    reported = refused(*options)
    assert why in reported
    assert "Traceback" not in reported
