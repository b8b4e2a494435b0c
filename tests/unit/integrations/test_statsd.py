"""What a statsd agent receives from the client of the package datadog, and that no job waits for it."""

import logging
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from offsider.core.errors import ConfigurationError
from offsider.integrations.statsd import dogstatsd

#: Far below the seconds of a name lookup, far above a call on a busy machine.
SOON_SECONDS = 2.0


@pytest.fixture(autouse=True)
def own_address(monkeypatch):
    for name in [name for name in os.environ if name.startswith("DD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def agent():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(10)
        yield listening


@pytest.fixture
def make():
    made = []

    def make(*address, **options):
        made.append(dogstatsd(*address, **options))
        return made[-1]

    yield make
    for client in made:
        client.stop(timeout=1)


def received(agent, count):
    lines = []
    while len(lines) < count:
        lines += agent.recv(10_000).decode().splitlines()
    return [line.partition("|c:")[0] for line in lines]  # without the container that these tests may run in


def test_names_types_and_tags_are_those_of_sidekiq_pro(make, agent):
    client = make(*agent.getsockname())
    client.increment("jobs.count", tags=["worker:Mail", "queue:low"])
    client.increment("jobs.count", 3)
    client.gauge("busy", 7)
    client.timing("jobs.perform", 12.5, tags=["worker:Mail"])
    client.distribution("jobs.perform_dist", 0.25, sample_rate=1)
    assert received(agent, 5) == [
        "sidekiq.jobs.count:1|c|#worker:Mail,queue:low",
        "sidekiq.jobs.count:3|c",
        "sidekiq.busy:7|g",
        "sidekiq.jobs.perform:12.5|ms|#worker:Mail",
        "sidekiq.jobs.perform_dist:0.25|d",
    ]


def test_the_address_may_be_in_the_environment_and_the_last_values_are_sent(make, agent, monkeypatch):
    host, port = agent.getsockname()
    monkeypatch.setenv("DD_AGENT_HOST", host)
    monkeypatch.setenv("DD_DOGSTATSD_PORT", str(port))
    client = make(namespace="shop", constant_tags=["region:eu"])
    for _ in range(100):
        client.increment("jobs.count")
    assert client.stop(timeout=10)
    assert received(agent, 100) == ["shop.jobs.count:1|c|#region:eu"] * 100


def test_an_agent_that_is_away_gets_later_values_and_is_not_logged(make, tmp_path, caplog):
    path = str(tmp_path / "dsd")
    client = make(socket_path=path)
    for _ in range(2000):
        client.increment("lost")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(path)
        agent.settimeout(10)
        seen = []
        deadline = time.monotonic() + 20
        while "sidekiq.received:1|c" not in seen and time.monotonic() < deadline:
            client.increment("received")
            client.flush()
            seen += received(agent, 1)
    assert "sidekiq.received:1|c" in seen
    assert not caplog.records


def test_the_log_level_of_the_user_stays(make, monkeypatch):
    log = logging.getLogger("datadog.dogstatsd")
    monkeypatch.setattr(log, "level", logging.WARNING)
    make()
    assert log.level == logging.WARNING


def test_a_name_lookup_blocks_no_job(monkeypatch):
    looking, found = threading.Event(), threading.Event()

    def slow(*args, **kwargs):
        looking.set()
        assert found.wait(20)
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    client = dogstatsd("nowhere.invalid")
    try:
        client.increment("first")
        client.flush()
        assert looking.wait(20)
        began = time.monotonic()
        for _ in range(10_000):  # many payloads
            client.increment("next")
        assert time.monotonic() - began < SOON_SECONDS
        assert client.stop(timeout=0.1) is False
    finally:
        found.set()


def test_an_agent_that_does_not_read_blocks_no_job(make, tmp_path):
    path = str(tmp_path / "dsd")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(path)
        client = make(socket_path=path)
        began = time.monotonic()
        for _ in range(10_000):
            client.increment("jobs.count")
        client.stop(timeout=10)
        assert time.monotonic() - began < SOON_SECONDS


def test_a_job_that_forks_waits_for_no_thread_and_its_child_starts_none():
    program = """
        import os, sys, threading, time
        from offsider.integrations.statsd import dogstatsd
        client = dogstatsd("127.0.0.1", 9)
        client.increment("jobs.count")
        seconds = []
        for _ in range(5):
            began = time.monotonic()
            child = os.fork()
            if child == 0:
                os._exit(threading.active_count())
            seconds.append(time.monotonic() - began)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        print(min(seconds) < 0.2)  # each fork would wait
    """
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datadog.dogstatsd", None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[statsd\]"'):
        dogstatsd()
