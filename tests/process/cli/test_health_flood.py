"""A flood on the health port: connections and threads are bounded, heartbeats and jobs continue, probes succeed."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from offsider.embedded.folder import free_port
from tests.process.stored import private, push
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at /proc (Linux)")

KINDS = 1_000
SECONDS = 6.0
APP = f"""
    from offsider import job
    from tests.process import jobs
    from tests.process.jobs import configure, short

    def declare(number):
        @job(name=f"Kind{{number}}", retry=False)
        def kind(given=0):
            return None

    for number in range({KINDS}):
        declare(number)
"""


def silent(port: int) -> None:
    """Connects and sends nothing."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.settimeout(0.5)
        connection.recv(1)


def slow(port: int) -> None:
    """One byte at a time."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        for byte in b"GET /metrics HTTP/1.1\r\n" * 3:
            connection.sendall(bytes([byte]))
            time.sleep(0.02)


def scrape(port: int) -> None:
    """Asks for much and does not read it."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        time.sleep(0.2)


def large(port: int) -> None:
    """Sends without an end."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        for _ in range(100):
            connection.sendall(b"x" * 4096)


def flood(port: int, attack, over: threading.Event, counts: list[int]) -> None:
    while not over.is_set():
        with suppress(OSError):
            attack(port)
        counts.append(1)


def probe(port: int) -> float:
    """The seconds until ``/live`` returned 200; refused or cut connections are retried, like on a platform."""
    started = time.monotonic()
    while True:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/live")
            status = connection.getresponse().status
            connection.close()
            assert status == 200
            return time.monotonic() - started
        assert time.monotonic() - started < 60


@pytest.mark.timeout(120)
def test_a_flood_on_the_health_port_blocks_no_other_request(workers, stored, ledger):
    port = free_port()
    fast = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
    worker = workers.start("-c", "2", "--health", f"127.0.0.1:{port}", text=APP, environ=fast, measured=False)
    for number in range(KINDS):
        push(stored, f"Kind{number}")
    wait_for(lambda: stored.llen("queue:default") == 0 and private(stored) == [], 30)
    over, counts, files = threading.Event(), [], []
    attackers = [
        threading.Thread(target=flood, args=(port, attack, over, counts), daemon=True)
        for attack in (silent, slow, scrape, large)
        for _ in range(12)
    ]
    for attacker in attackers:
        attacker.start()
    until, longest, jids = time.monotonic() + SECONDS, 0.0, []
    while time.monotonic() < until:
        files.append(len(list(Path(f"/proc/{worker.parent}/fd").iterdir())))
        jids.append(push(stored, "Short", 1))
        longest = max(longest, probe(port))
        time.sleep(0.1)
    wait_for(lambda: {*jids} <= {*ledger.counts("end")}, 20)
    over.set()
    print("attacks", len(counts), "files", max(files), "probe", longest)
    assert len(list(Path(f"/proc/{worker.parent}/task").iterdir())) == 1
    assert max(files) < 100
    assert len(counts) > 100
    for attacker in attackers:
        attacker.join(10)
    assert ledger.notes("lost ownership") == ledger.notes("reclaimed") == []
    assert "declared dead" not in worker.stopped(30)
