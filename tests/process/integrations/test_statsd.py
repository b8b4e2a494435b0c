"""Workers and a real UDP socket: every value arrives, and a missing agent costs nothing."""

from __future__ import annotations

import socket
import textwrap
from collections import Counter

import pytest

from offsider.client import Client
from tests.waiting import wait_for

APP = """
    from offsider import job
    from offsider.integrations.statsd import Statsd, dogstatsd
    from tests.process.ledger import note

    @job(name="Runs", retry=False)
    def runs(fail=False):
        note("ran")
        if fail:
            raise LookupError("gone")

    def configure(config):
        config.use(Statsd(lambda: dogstatsd(ADDRESS), OPTIONS))
"""
JOBS = 300


def application(address: str, options: str = "") -> str:
    return textwrap.dedent(APP).replace("ADDRESS", address).replace("OPTIONS", options)


class Agent:
    """Receives datagrams and sums the counters; the kernel buffers datagrams between two reads."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening
        self.port = listening.getsockname()[1]
        self.counts: Counter[str] = Counter()
        self.datagrams = 0

    def read(self) -> Counter[str]:
        while True:
            try:
                datagram = self._socket.recv(65_536)
            except BlockingIOError:
                return self.counts
            self.datagrams += 1
            for line in datagram.decode().splitlines():
                name, _, rest = line.partition(":")
                value, kind = rest.split("|")[:2]
                self.counts[name.removeprefix("sidekiq.")] += int(value) if kind == "c" else 1


@pytest.fixture
def agent():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        listening.bind(("127.0.0.1", 0))
        listening.setblocking(False)
        yield Agent(listening)


@pytest.fixture
def push(config):
    client = Client(config)
    return lambda count, *, fail=False: client.push_bulk({"class": "Runs", "args": [[fail]] * count})


def test_every_run_is_counted_from_the_first_to_the_last(workers, ledger, agent, push):
    push(JOBS)  # waiting at the start
    worker = workers.start("-c", "5", "--processes", "2", text=application(f"'127.0.0.1', {agent.port}"))
    push(JOBS)
    push(10, fail=True)
    wait_for(lambda: agent.read() and len(ledger.notes("ran")) == 2 * JOBS + 10, 60)
    worker.stopped(60)  # immediately: buffered metrics have to be sent now
    counts = agent.read()
    assert counts.pop("jobs.count") == 2 * JOBS + 10
    assert counts.pop("jobs.failure") == 10
    assert counts == dict.fromkeys(("jobs.success", "jobs.perform", "jobs.perform_dist"), 2 * JOBS)
    assert agent.datagrams < JOBS, "many values in one datagram"
