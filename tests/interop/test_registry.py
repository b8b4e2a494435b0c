"""Ruby's pages list our process and its jobs, and their buttons work on it."""

from __future__ import annotations

import pytest

from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("sidekiq", "redis-server")

PROCESSES = """
  Sidekiq::ProcessSet.new.map { |process| {
    identity: process.identity, tag: process.tag, labels: process.labels, queues: process.queues,
    pid: process["pid"], hostname: process["hostname"], busy: process["busy"], rss: process["rss"],
    concurrency: process["concurrency"], beat: process["beat"], rtt: process["rtt_us"], quiet: process.stopping? } }
"""
WORK = "Sidekiq::Workers.new.map { |identity, tid, work| [identity, tid, work] }"
SIGNAL = "Sidekiq::ProcessSet.new.find { |process| process.identity == identity }.%s"


@pytest.fixture
def listed(ruby):
    """The process with this pid as Ruby lists it, once ``wanted`` holds for it."""

    def find(pid, wanted):
        found = next((process for process in ruby(PROCESSES) if process["pid"] == pid), None)
        return found if found is not None and wanted(found) else None

    return lambda pid, what, wanted=bool: eventually(lambda: find(pid, wanted), what)


def test_ruby_lists_our_process_and_its_jobs_and_its_quiet_and_stop_work(
    processes, client, ruby, raw_redis, listed
) -> None:
    """The signals are left for the heartbeat in good time: it takes one of them every five seconds."""
    worker = processes.offsider("-q", "python", "-q", "low", "-c", "2", "-g", "shop")
    process = listed(worker.pid, "our process in Ruby's ProcessSet")
    identity = process["identity"]
    assert identity.split(":")[:2] == [process["hostname"], str(worker.pid)]
    assert (process["tag"], process["queues"], process["concurrency"]) == ("shop", ["python", "low"], 2)
    assert process["rss"] > 1000
    assert process["rtt"] > 0
    assert process["quiet"] is False
    assert abs(process["beat"] - ruby("Time.now.to_f")) < 60

    jid = client.push({"class": "WaitsForRelease", "args": ["日本"], "queue": "python"})
    eventually(lambda: raw_redis.exists(f"seen:{jid}"), "the job to run")
    ruby(SIGNAL % "quiet!", identity=identity)
    [(shown_identity, tid, work)] = eventually(lambda: ruby(WORK), "our job in Ruby's WorkSet")
    assert shown_identity == identity
    assert tid
    assert work["queue"] == "python"
    assert (work["payload"]["jid"], work["payload"]["args"]) == (jid, ["日本"])
    assert abs(work["run_at"] - ruby("Time.now.to_i")) < 60
    assert listed(worker.pid, "our process to be quiet", lambda now: now["quiet"])["busy"] == 1

    untouched = client.push({"class": "HardJob", "args": [], "queue": "python"})
    ruby(SIGNAL % "stop!", identity=identity)
    eventually(lambda: raw_redis.exists(f"{identity}-signals") == 0, "the signal to be taken")
    raw_redis.set("release", 1)

    assert worker.wait(45) == 0
    assert ruby(PROCESSES) == []
    assert ruby(WORK) == []
    assert raw_redis.llen("queue:python") == 1
    assert not raw_redis.exists(f"seen:{untouched}")


def test_a_live_sidekiq_6_makes_our_worker_warn_about_another_wire_version(processes, ruby, listed) -> None:
    sidekiq = processes.sidekiq("-q", "nothing")
    listed(sidekiq.pid, "Sidekiq in its own list")
    warning = "which does not read what is written with wire_version"

    listed(processes.offsider("-q", "nothing").pid, "a worker with the right version")
    assert warning not in processes.logs()

    processes.offsider("-q", "nothing", OFFSIDER_WIRE_VERSION="8")
    eventually(lambda: f"{warning} = 8; set redis.wire_version = 6" in processes.logs(), "the warning")
