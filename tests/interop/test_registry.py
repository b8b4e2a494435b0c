"""Ruby's pages list our process and its jobs, and their buttons work on it."""

from __future__ import annotations

import pytest

from tests.interop.waiting import eventually, worker_of

pytestmark = pytest.mark.needs("redis-server")

PROCESSES = """
  Sidekiq::ProcessSet.new.map { |process| {
    identity: process.identity, tag: process.tag, labels: process.labels, queues: process.queues,
    pid: process["pid"], hostname: process["hostname"], busy: process["busy"], rss: process["rss"],
    concurrency: process["concurrency"], beat: process["beat"], rtt: process["rtt_us"], quiet: process.stopping? } }
"""
# Until 7.2 the work is a hash whose payload is parsed, later an object; its payload is then as it was stored.
WORK = """
  Sidekiq::Workers.new.map do |identity, tid, work|
    shown = ->(name) { work.is_a?(Hash) ? work[name] : work.public_send(name) }
    job = Sidekiq::JobRecord.new(shown["payload"])
    [identity, tid, {queue: shown["queue"], jid: job.jid, args: job.args, run_at: shown["run_at"].to_i}]
  end
"""
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
    process = listed(worker_of(worker), "our process in Ruby's ProcessSet")
    identity = process["identity"]
    assert identity.split(":")[:2] == [process["hostname"], str(worker_of(worker))]
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
    assert (work["jid"], work["args"]) == (jid, ["日本"])
    assert abs(work["run_at"] - ruby("Time.now.to_i")) < 60
    assert listed(worker_of(worker), "our process to be quiet", lambda now: now["quiet"])["busy"] == 1

    untouched = client.push({"class": "HardJob", "args": [], "queue": "python"})
    ruby(SIGNAL % "stop!", identity=identity)
    eventually(lambda: raw_redis.exists(f"{identity}-signals") == 0, "the signal to be taken")
    raw_redis.set("release", 1)

    assert worker.wait(45) == 0
    assert ruby(PROCESSES) == []
    assert ruby(WORK) == []
    assert raw_redis.llen("queue:python") == 1
    assert not raw_redis.exists(f"seen:{untouched}")


LATER = (
    "but wire_version is {ours}: it cannot read times and backtraces in that format; "
    "fix: set redis.wire_version = {ruby}"
)
EARLIER = "wire_version is {ours}, but all Ruby processes are Sidekiq {ruby} or newer"


def test_a_live_sidekiq_makes_our_worker_warn_about_any_other_wire_version(processes, listed, sidekiq_at) -> None:
    listed(processes.sidekiq("-q", "nothing").pid, "Sidekiq in its own list")
    listed(worker_of(processes.offsider("-q", "nothing")), "a worker with the right version")
    assert "set redis.wire_version" not in processes.logs()

    spoken = sidekiq_at.wire_version
    for ours in {6, 7, 8} - {spoken}:
        processes.offsider("-q", "nothing", OFFSIDER_REDIS_WIRE_VERSION=str(ours))
        warning = (LATER if ours > spoken else EARLIER).format(ruby=spoken, ours=ours)
        eventually(lambda warning=warning: warning in processes.logs(), f"the warning of {ours}")
