"""One run is canceled within two seconds, beside others that go on; what cannot be canceled is refused."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from click.testing import CliRunner

from offsider import job
from offsider.cli.main import main
from offsider.client import Client
from offsider.core.errors import CannotCancel, JobCancelled
from offsider.inspector import DeadSet, EventLog, ProcessSet, WorkSet
from offsider.worker.launcher import Launcher
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("declared"), pytest.mark.interrupts]


@pytest.fixture
def launcher(worker_config):
    worker_config.worker.concurrency = 3
    worker_config.worker.timeout_seconds = 0.1
    launcher = Launcher(worker_config)
    launcher.start()
    yield launcher
    launcher.stop()


@pytest.fixture
def push(worker_config):
    client = Client(worker_config)
    return lambda name, *args, **options: str(client.push({"class": name, "args": list(args), **options}))


@pytest.fixture
def until_running(worker_config):
    return lambda jid: wait_for(lambda: WorkSet(worker_config).find_work(jid))


@pytest.fixture
def caught(declared) -> list[str]:
    """Jobs that run on until they are canceled, and what they caught."""
    caught: list[str] = []

    @job(name="Loops", retry=5)
    def loops(name: str) -> None:
        try:
            while True:
                time.sleep(0.01)
        except JobCancelled as error:
            caught.append(f"{name}: {error}")
            raise

    @job(name="Waits")
    async def waits(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        except JobCancelled as error:
            caught.append(f"{name}: {error}")
            raise

    return caught


def dead(config, jid: str) -> dict:
    found = next((entry for entry in DeadSet(config) if entry.jid == jid), None)
    return {} if found is None else json.loads(found.raw)


@pytest.mark.usefixtures("launcher")
@pytest.mark.parametrize("name", ["Loops", "Waits"])
def test_one_run_is_canceled_within_two_seconds_beside_others(worker_config, push, until_running, caught, name):
    until_running(other := push(name, "other"))
    seconds = []
    for _ in range(2):
        work = until_running(jid := push(name, "mine"))
        began = time.monotonic()
        work.cancel()
        job = wait_for(lambda jid=jid: dead(worker_config, jid))
        seconds.append(time.monotonic() - began)
    assert min(seconds) < 6, "two seconds, on a machine that is not busy"
    assert caught == ["mine: an operator canceled this run"] * 2
    assert job["error_class"] == "offsider.core.errors.JobCancelled"
    assert job["retry_count"] == 0
    wait_for(lambda: WorkSet(worker_config).find_work(jid) is None)
    assert WorkSet(worker_config).find_work(other)


def test_a_run_that_has_ended_or_never_began_is_refused(launcher, worker_config, push, until_running, caught):
    jid = push("Loops", "mine")
    work = until_running(jid)
    work.cancel()
    wait_for(lambda: WorkSet(worker_config).find_work(jid) is None)
    with pytest.raises(CannotCancel, match=f"job {jid} no longer runs in {work.process}"):
        work.cancel()
    launcher.parts._act_on("CANCEL nothing", embedded=True)  # a request that comes after the end cancels nothing
    assert len(DeadSet(worker_config)) == 1


def test_a_ruby_process_gets_no_signal_that_it_cannot_handle(worker_config, raw_redis):
    identity = "app:1:abcdef012345"
    raw_redis.sadd("processes", identity)
    raw_redis.hset(identity, mapping={"info": json.dumps({"hostname": "app", "pid": 1}), "busy": 1, "beat": 1.0})
    payload = json.dumps({"class": "HardJob", "args": [], "jid": "j" * 24})
    raw_redis.hset(f"{identity}:work", "tid", json.dumps({"queue": "low", "payload": payload, "run_at": 1}))
    (work,) = WorkSet(worker_config)
    with pytest.raises(CannotCancel, match="a Ruby process, which cannot cancel a run: stop it instead"):
        work.cancel()
    assert not raw_redis.exists(f"{identity}-signals")


def test_a_call_into_c_is_reported_with_its_place_and_ends_when_it_returns(
    launcher, worker_config, push, until_running, caplog
):
    returns = threading.Event()

    @job(name="Blocks")
    def blocks() -> None:
        returns.wait()
        for _ in range(1000):
            pass

    jid = push("Blocks")
    until_running(jid).cancel()
    wait_for(lambda: f"job {jid} is canceled, but cannot be interrupted at " in caplog.text)
    assert "it is in a system call or in C code, and ends when that returns" in caplog.text
    returns.set()
    assert wait_for(lambda: dead(worker_config, jid))["error_class"] == "offsider.core.errors.JobCancelled"


@pytest.mark.usefixtures("caught", "launcher")
def test_the_command_waits_for_the_end_of_the_run(worker_config, push, until_running, tmp_path):
    jid = push("Loops", "mine")
    work = until_running(jid)
    (tmp_path / "offsider.toml").write_text(f'[redis]\nurl = "{worker_config.redis.url}"\n')
    arguments = ["cancel", jid, "-C", str(tmp_path / "offsider.toml")]
    found = CliRunner().invoke(main, arguments)
    assert (found.exit_code, found.output) == (0, f"Canceled: the run of Loops in {work.process} has ended.\n")
    (event,) = EventLog(worker_config).read(kinds=["action"])
    assert (event.subject, event.fields["action"]) == (jid, "job.cancel")
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 1
    assert f"job {jid} is not running; see offsider why {jid}" in again.output
    assert ProcessSet(worker_config).find(work.process)
