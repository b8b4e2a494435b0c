"""Periodic jobs of real workers: killed during a claim, and from the configuration file."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter

import pytest

from tests.time_zones import Zones, changes
from tests.waiting import wait_for

APP = """
import json, os, signal
from offsider import Config
from offsider.ext.periodic import Periodic
from offsider.ext.periodic.store import PeriodicStore

def configure(config: Config) -> None:
    periodic = Periodic(grace_seconds=600)
    for name, cron, tz in json.loads(os.environ["JOBS"]):
        periodic.register(cron, "Tick", name=name, tz=tz, queue="ticks")
    config.use(periodic)
    if method := os.environ.get("DIE_IN"):
        die(method, after=os.environ["DIE_WHEN"] == "after")

def die(method: str, *, after: bool) -> None:
    real = getattr(PeriodicStore, method)

    def dying(*args, **kwargs):
        if after:
            real(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(PeriodicStore, method, dying)
"""


@pytest.fixture
def zones(tmp_path) -> Zones:
    return Zones(tmp_path / "zones")


@pytest.fixture
def start(workers, zones):
    """Starts a worker with these jobs, which serves none of their queues."""

    def start(jobs, *, wait: bool = True, **environ):
        entries = json.dumps([[job.name, job.cron, job.tz] for job in jobs])
        given = {"JOBS": entries, "PYTHONTZPATH": zones.path, **environ}
        return workers.start("-c", "1", "-q", "nothing", text=APP, environ=given, wait=wait)

    return start


def pushed(stored) -> Counter:
    payloads = [json.loads(raw) for raw in stored.lrange("queue:ticks", 0, -1)]
    return Counter((payload["periodic"]["name"], payload["periodic"]["at"]) for payload in payloads)


def dealt_with(stored, jobs, until: int) -> None:
    """As if workers had been running until then: they catch up on ticks missed while they start."""
    stored.hset("offsider:periodic:ticks", mapping=dict.fromkeys((job.name for job in jobs), until))


@pytest.mark.parametrize("method,when", [("take_lease", "after"), ("claim", "after")])
def test_a_kill_during_the_claim_neither_loses_nor_repeats_a_tick(start, stored, zones, method, when):
    due = int(time.time())
    jobs = changes(zones, due, 1)[:1]
    dealt_with(stored, jobs, due - 10)
    assert start(jobs, wait=False, DIE_IN=method, DIE_WHEN=when).ended(60) == 128 + signal.SIGKILL
    second = start(jobs)
    wait_for(lambda: pushed(stored))
    second.stopped()
    assert pushed(stored) == Counter({(jobs[0].name, due): 1})


def test_jobs_of_the_configuration_file_need_no_code(workers, stored, zones, tmp_path):
    due = int(time.time())
    (job, *_) = changes(zones, due, 1)
    stored.hset("offsider:periodic:ticks", "filed", due - 10)
    (tmp_path / "offsider.toml").write_text(
        f'[periodic.filed]\ncron = "{job.cron}"\ntz = "{job.tz}"\njob = "Tick"\nqueue = "ticks"\ngrace_seconds = 600\n'
        'expires_in = 50\nkeep_result = 60\nkwargs = { bucket = "${BUCKET}" }\nretry = "${RETRIES:-3}"\n'
    )
    text = (
        "from offsider import job\nfrom offsider.ext.results import Results\n"
        "def configure(config): config.use(Results())\n"
        "@job(name='Tick')\ndef tick(*, bucket): ...\n"
    )
    workers.start("-q", "nothing", text=text, environ={"PYTHONTZPATH": zones.path, "BUCKET": "backups"})
    wait_for(lambda: pushed(stored) == Counter({("filed", due): 1}), 60)
    payload = json.loads(stored.lindex("queue:ticks", 0))
    assert {key: payload[key] for key in ("expires_in", "keep_result", "kwargs", "retry")} == {
        "expires_in": 50,
        "keep_result": 60,
        "kwargs": {"bucket": "backups"},
        "retry": 3,
    }
