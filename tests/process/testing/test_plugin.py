"""The plugin as users meet it: a pytest of its own, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

APPLICATION = """
from offsider import job

@job(queue="mail")
def welcome(user_id: int, *, twice: bool = False) -> str:
    (done if user_id else [].index)(user_id)

seen = []
done = seen.append

def sign_up(user_id):
    welcome.enqueue(user_id)
"""

PASSING = """
import application
from offsider.testing import assert_enqueued, assert_not_enqueued

def test_fake(offsider_fake):
    application.sign_up(42)
    assert_enqueued(application.welcome, 42, queue="mail")
    assert application.seen == []
    offsider_fake.drain()
    assert application.seen.pop() == 42

def test_nothing_is_left_of_the_test_before(offsider_fake):
    assert_not_enqueued(application.welcome)

def test_inline(offsider_inline):
    application.sign_up(43)
    assert application.seen.pop() == 43

def test_clock(offsider_clock, offsider_fake):
    application.welcome.enqueue_in(60, 44)
    offsider_clock.advance(60)
    assert offsider_fake.drain(only_due=True) == 1
"""

FAILING = """
import application
from offsider.testing import assert_enqueued

def test_it(offsider_fake):
    application.sign_up(42)
    assert_enqueued(application.welcome, 43, queue="low")
"""

QUICK = """
import sys
import offsider.testing.plugin
heavy = {"redis", "asyncio", "offsider.config.config", "offsider.client", "offsider.worker"}
print(heavy & set(sys.modules) - before)
"""


@pytest.fixture
def project(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    pytester.makepyfile(application=APPLICATION)
    return pytester


def run(project: pytest.Pytester, test_file: str) -> pytest.RunResult:
    project.makepyfile(test_it=test_file)
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")


def test_fixtures_for_tests_without_redis(project):
    run(project, PASSING).assert_outcomes(passed=4)


def test_a_failure_shows_the_line_of_the_test_and_the_enqueued_jobs(project):
    result = run(project, FAILING)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>       assert_enqueued(application.welcome, 43, queue="low")',
            "E       AssertionError: not enqueued: application.welcome(43), with queue 'low'",
            "E       Enqueued, oldest first (1 job):",
            "E         1. application.welcome(42) in queue mail",
            "E       Nearest is 1: user_id is 42, not 43; queue is 'mail', not 'low'.",
            "test_it.py:6: AssertionError",
        ],
        consecutive=False,
    )
    result.stdout.no_fnmatch_line("*recorder.py*")


def test_loading_the_plugin_loads_nothing_else():
    program = "import sys, pytest; before = set(sys.modules)" + QUICK
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
