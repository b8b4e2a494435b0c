"""The health endpoint of real workers, served by their parent."""

from __future__ import annotations

import http.client
import os
import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsider.embedded.folder import free_port
from tests.process.stored import private, push
from tests.waiting import wait_for


class Probe:
    """Asks as a platform does."""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def __call__(self, path: str) -> tuple[int, str]:
        """Status and body; 0 without a connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()


@pytest.fixture
def probe() -> Probe:
    return Probe()


def test_a_worker_is_ready_until_quiet_and_live_until_its_end(workers, probe):
    worker = workers.start("-c", "1", "--health", probe.address)
    wait_for(lambda: probe("/ready") == (200, "ok\n"))
    os.kill(worker.pid, signal.SIGSTOP)  # as a job that blocks its interpreter
    assert probe("/live") == probe("/ready") == (200, "ok\n")
    os.kill(worker.pid, signal.SIGCONT)
    worker.send("TSTP")
    wait_for(lambda: probe("/ready")[0] == 503)
    assert f"worker {worker.pid} is quiet\n" in probe("/ready")[1]
    assert probe("/live") == (200, "ok\n")
    worker.stopped()
    wait_for(lambda: probe("/live")[0] == 0)


def test_while_the_application_is_loaded_it_lives_and_is_not_ready(workers, probe):
    slow = "import time\nfrom pathlib import Path\nwhile not Path('go').exists():\n    time.sleep(0.02)\n"
    worker = workers.start("--health", probe.address, text=slow, wait=False)
    wait_for(lambda: probe("/ready")[0] == 503)
    assert probe("/live") == (200, "ok\n")
    (workers.folder / "go").touch()
    worker.until_running()
    wait_for(lambda: probe("/ready") == (200, "ok\n"))


def runs_of(text: str, name: str) -> float:
    """The number of runs of a class in a scrape."""
    families = {family.name: family for family in text_string_to_metric_families(text)}
    if "sidekiq_jobs_completion_seconds" not in families:
        return 0.0
    return sum(
        sample.value
        for sample in families["sidekiq_jobs_completion_seconds"].samples
        if sample.name.endswith("_count") and sample.labels["class"] == name
    )


def test_a_scrape_covers_all_children_and_never_decreases_when_one_is_replaced(workers, stored, ledger, probe):
    environ = {"OFFSIDER_REDIS_WIRE_VERSION": "6"}  # beats each 5 s, and counts with them
    parent = workers.start("-p", "2", "-c", "1", "--health", probe.address, environ=environ, wait=False)
    parent.until_says("now running: ")
    jids: list[str] = []  # as many as it takes until both have worked
    wait_for(lambda: jids.append(push(stored, "Short")) or len({note.pid for note in ledger.notes("end")}) == 2)
    wait_for(lambda: runs_of(probe("/metrics")[1], "Short") == len(jids) and private(stored) == [])

    os.kill(ledger.notes("end")[0].pid, signal.SIGKILL)
    parent.until_says("running <Capsule", times=3)
    assert runs_of(probe("/metrics")[1], "Short") == len(jids)
    for number in range(5):
        push(stored, "Short", number, 0.05)
    wait_for(lambda: runs_of(probe("/metrics")[1], "Short") == len(jids) + 5)
    parent.stopped()
