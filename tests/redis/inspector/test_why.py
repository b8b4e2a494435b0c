"""Why a job does not run: one test per reason, each with the fault itself."""

from __future__ import annotations

import json
import threading
import time

import pytest
from click.testing import CliRunner

from offsider import job
from offsider.cli.main import main
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.results import Results
from offsider.inspector import Controls, DeadSet, JobFilter, Queue, RetrySet, ScheduledSet, WorkSet
from offsider.inspector.why import Reason, judge, read
from offsider.storage import owners, stack_samples
from offsider.storage.owners import Lists
from offsider.storage.stack_samples import StackSample
from offsider.worker.launcher import Launcher
from tests.redis.inspector.examined import payload
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")


class Asked:
    """A server, its jobs, and why one of them does not run."""

    def __init__(self, config) -> None:
        self.config = config
        self.end = threading.Event()
        self.launchers: list[Launcher] = []

    def push(self, name: str = "Mail", *args: object, **options: object) -> str:
        return str(Client(self.config).push({"class": name, "args": list(args), **options}))

    def why(self, jid: str) -> dict[str, Reason]:
        return {reason.kind: reason for reason in judge(read(jid, self.config))}

    def start(self) -> Launcher:
        launcher = Launcher(self.config)
        self.launchers.append(launcher)
        launcher.start()
        return launcher

    def blocking(self, **options) -> None:
        @job(name="Blocks", **options)
        def blocks(number: int) -> None:
            assert number
            self.end.wait()

    def running(self, *args: object) -> str:
        jid = self.push("Blocks", *args)
        wait_for(lambda: WorkSet(self.config).find_work(jid))
        return jid


@pytest.fixture
def asked(config):
    config.worker.concurrency = 1
    asked = Asked(config)
    yield asked
    asked.end.set()
    for launcher in asked.launchers:
        launcher.stop()


def test_an_unknown_job_is_said_to_be_unknown_with_what_to_try(asked):
    reasons = asked.why("nothing")
    assert [*reasons] == ["unknown"]
    assert "There is no job nothing on this server" in reasons["unknown"].text
    assert reasons["unknown"].steps[0].command == "offsider jobs --text TEXT"


def test_a_waiting_job_has_its_position_and_an_unserved_queue_the_command_that_serves_it(asked):
    asked.push(), asked.push()
    reasons = asked.why(asked.push())
    assert [*reasons] == ["queued", "unserved"]
    assert reasons["queued"].text.startswith("It waits in the queue default, number 3 of 3: 2 jobs are ahead of it.")
    assert reasons["unserved"].text == "No process serves the queue default."
    assert reasons["unserved"].steps[0].command == "offsider worker -r YOUR_MODULE -q default"


def test_a_pause_is_reported_with_who_since_when_and_why(asked, raw_redis):
    jid = asked.push()
    Queue("default", asked.config).pause(by="ann@web", reason="the bank is down")
    text = asked.why(jid)["paused"].text
    assert text.startswith("The queue default is paused by ann@web since ")
    assert text.endswith(": the bank is down.")
    Queue("default", asked.config).unpause()
    assert "paused" not in asked.why(jid)
    raw_redis.sadd("paused", "default")  # as Sidekiq Pro does
    assert asked.why(jid)["paused"].text == "The queue default is paused (by a client that recorded no name)."


def test_a_queue_whose_only_process_is_quiet(asked):
    launcher = asked.start()
    launcher.quiet()
    launcher.parts.heartbeat.tick()
    assert launcher.identity in asked.why(asked.push())["quiet"].text


def test_all_threads_are_busy_with_jobs_that_are_named(asked):
    asked.blocking()
    asked.start()
    asked.running(1)
    jid = asked.push("Blocks", 2)
    text = wait_for(lambda: asked.why(jid).get("busy")).text
    assert text.startswith("All 1 thread of 1 process are busy with 1 Blocks; the longest for ")


def test_a_running_job_is_said_to_run_with_its_process_and_how_to_cancel_it(asked):
    asked.blocking()
    launcher = asked.start()
    jid = asked.running(1)
    reasons = asked.why(jid)
    assert [*reasons] == ["running"]
    assert f"It runs in {launcher.identity}, thread " in reasons["running"].text
    assert reasons["running"].steps[0].command == f"offsider cancel {jid}"


def test_a_run_that_lasts_unusually_long_shows_where_it_is(asked):
    asked.blocking()
    asked.start()
    jid = asked.running(1)
    stack = '  File "/app/mail.py", line 3, in send\n    connect()\n  File "/app/smtp.py", line 9, in connect\n'
    stack_samples.add(Installation.of(asked.config).redis, jid, StackSample(100.0, 160.0, stack))
    text = asked.why(jid)["slow"].text
    assert text.endswith("1 min 0 s after its start it was at /app/smtp.py:9 in connect.")


@pytest.mark.parametrize(
    "control, kind, says",
    [
        (lambda controls: controls.defer("Mail", 60, by="ann"), "deferred", "Jobs of Mail are deferred by 60 s by ann"),
        (lambda controls: controls.drop("Mail", reason="broken"), "dropped", "Jobs of Mail are dropped since "),
        (lambda controls: controls.hold("Mail"), "hold", "Jobs of Mail are held since "),
        (lambda controls: controls.limit("queue=default", 2), "limited", "Jobs of queue=default are limited to 2 "),
        (lambda controls: controls.hold("Mail[42]"), "hold", "Jobs of Mail[42] are held since "),
    ],
)
def test_a_control_of_the_class_is_reported(asked, control, kind, says):
    jid, other = asked.push(), asked.push("Other", queue="other")
    control(Controls(asked.config))
    reason = asked.why(jid)[kind]
    assert reason.text.startswith(says)
    assert reason.steps[0].command.startswith("offsider controls resume ")
    assert ("this may include the job" in reason.text) == ("[42]" in says)
    assert kind not in asked.why(other)


def test_a_held_job_names_the_limit_and_its_holder(asked):
    asked.config.use(ConcurrencyLimits())
    asked.config.worker.concurrency = 2
    asked.blocking(concurrency_limit=1)
    launcher = asked.start()
    first = asked.running(1)
    jid = asked.push("Blocks", 2)
    reasons = wait_for(lambda: found if "held" in (found := asked.why(jid)) else None)
    assert reasons["held"].text.startswith("It is held in the group Blocks, number 1: ")
    assert reasons["limit"].text.startswith("Blocks is at its limit of 1 concurrent run: 1 in use by ")
    assert f"{first} in {launcher.identity} for " in reasons["limit"].text


def test_a_job_that_no_live_process_can_run_is_stranded(asked):
    asked.blocking()
    asked.start()
    jid = asked.push("Removed")
    reasons = wait_for(lambda: found if "stranded" in (found := asked.why(jid)) else None)
    assert reasons["stranded"].text.startswith("No live process can run Removed since ")
    asked.running(1)
    assert "declares Removed: such a job is stranded" in asked.why(asked.push("Removed"))["incapable"].text


def test_a_scheduled_job_has_its_time_and_an_overdue_one_no_worker(asked):
    reasons = asked.why(asked.push(at=time.time() + 3_600))
    assert [*reasons] == ["scheduled"]
    assert reasons["scheduled"].text.endswith(("in 59 min 59 s.", "in 1 h 0 min."))
    jid = asked.push(at=time.time() + 3_600)
    (entry,) = [entry for entry in ScheduledSet(asked.config) if entry.jid == jid]
    assert entry.reschedule(time.time() - 120)
    assert "It is overdue for 2 min " in asked.why(jid)["overdue"].text


def test_a_failed_job_has_its_attempt_its_error_and_the_time_of_its_retry(asked):
    @job(name="Fails")
    def fails() -> None:
        raise KeyError("FR")

    asked.start()
    jid = asked.push("Fails", retry=3)
    reasons = wait_for(lambda: found if "retry" in (found := asked.why(jid)) else None)
    assert reasons["retry"].text.startswith("Attempt 1 of 4 failed with KeyError. It will be retried at ")
    assert reasons["retry"].steps[0].command == f"offsider do job {jid}/retry"
    assert RetrySet(asked.config).kill_all(JobFilter(text=jid)) == 1
    dead = asked.why(jid)["dead"]
    assert dead.text.endswith("and will not run again by itself. Attempt 1 of 4 failed with KeyError.")
    (entry,) = DeadSet(asked.config)
    assert entry.quarantine()
    quarantined = asked.why(jid)
    assert [*quarantined] == ["quarantine"]
    assert quarantined["quarantine"].steps[0].command == f"offsider do job {jid}/restore"


def test_a_poison_pill_and_a_job_at_an_infinite_time(asked, raw_redis):
    raw_redis.zadd("retry", {payload("A", jid="a" * 24): float("inf")})
    assert asked.why("a" * 24)["retry"].text.endswith("It will be retried at an unknown time.")
    raw_redis.zadd("dead", {'{"class": "A", "args": [], "jid": "pill", "error_class": "offsider.PoisonPill"}': 1})
    assert asked.why("pill")["dead"].steps[0].text == "It killed workers. After the fix, retry it"


def test_a_job_in_a_private_list_waits_for_its_process_or_for_the_sweep(asked, raw_redis):
    redis, identity = Installation.of(asked.config).redis, "host:1:abcdef012345"
    owners.beat(redis, Lists(identity, {"default": ("default",)}), 60_000)
    payload = {"class": "Mail", "args": [], "jid": "j" * 24, "queue": "default"}
    raw_redis.lpush(redis.keys.working(identity, "default", "default"), json.dumps(payload))
    assert asked.why("j" * 24)["claimed"].text.startswith(f"{identity} has claimed it from the queue default")
    raw_redis.delete(redis.keys.alive(identity))
    assert f"the private list of {identity}, which has died" in asked.why("j" * 24)["reclaim"].text


def test_an_expired_job_is_deleted_instead_of_run(asked):
    jid = asked.push(expires_in=0.001)
    assert wait_for(lambda: asked.why(jid).get("expired")).text.endswith("a worker deletes it instead of running it.")


def test_a_tracked_job_that_has_succeeded_says_when(asked):
    asked.config.use(Results())

    @job(name="Tracked")
    def tracked() -> None: ...

    launcher = asked.start()
    jid = asked.push("Tracked", track=True)
    reason = wait_for(lambda: asked.why(jid).get("succeeded"))
    assert reason.text.startswith("It has succeeded ")
    assert launcher.identity in reason.text


def test_a_job_that_has_succeeded_is_in_the_flight_recorder(asked):
    @job(name="Fine")
    def fine() -> None: ...

    asked.start()
    jid = asked.push("Fine")
    text = wait_for(lambda: asked.why(jid).get("succeeded")).text
    assert text.startswith("It is in no queue or set. Its last run of Fine")
    assert text.endswith(", and succeeded.")


@pytest.mark.parametrize(
    "fields, where",
    [
        ({"c": "27000"}, "at the cursor 27000 when"),
        ({"c": "null"}, "at its first element when"),
        ({"c": "7", "end": "1"}, "after its last element when"),
        ({"c": "7", "cancelled": "1"}, "at the cursor 7 when that was last stored, and was canceled."),
    ],
)
def test_an_iteration_says_where_it_continues(asked, raw_redis, fields, where):
    jid = asked.push()
    raw_redis.hset(f"it-{jid}", mapping={"ex": "3", "rt": "41.2"} | fields)
    text = asked.why(jid)["iterates"].text
    assert text.startswith("It iterates: 3 runs, 41 s, ")
    assert where in text


def test_steps_and_a_wait_are_told(asked, raw_redis):
    jid = asked.push(at=time.time() + 3600)
    stored = {"step:label": '["x","shop.label",2,0.5]', "step:charge": '[{"cents":7},"shop.pay",1,0.5]'}
    raw_redis.hset(f"offsider:steps:{jid}", mapping=stored)
    assert asked.why(jid)["steps"].text == "It has finished 2 steps: charge, label."
    raw_redis.hset(f"offsider:steps:{jid}", mapping={"waits": "paid\n{}", "until:paid": "1795862400"})
    assert asked.why(jid)["waits"].text == (
        "It has finished 2 steps: charge, label. It waits for the signal 'paid' until 2026-11-28 10:40:00 UTC."
    )


def test_the_command_prints_the_reasons_and_the_next_steps(asked, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[redis]\nurl = "{asked.config.redis.url}"\n')
    jid = asked.push()

    def run(*words: str):
        return CliRunner().invoke(main, ["why", *words, "-C", str(tmp_path / "offsider.toml")])

    found = run(jid)
    assert found.exit_code == 0
    lines = found.output.splitlines()
    assert lines[0] == f"Mail {jid}"
    assert lines[2:] == [
        "No process serves the queue default.",
        "",
        "Start a worker for it: offsider worker -r YOUR_MODULE -q default",
    ]
    data = json.loads(run(jid, "--json").output)
    assert [reason["kind"] for reason in data["reasons"]] == ["queued", "unserved"]
    assert (data["class"], data["where"], data["server"]) == ("Mail", "queue:default", "main")
    assert data["reasons"][1]["steps"][0]["command"] == "offsider worker -r YOUR_MODULE -q default"
    unknown = run("nothing")
    assert unknown.exit_code == 1
    assert "There is no job nothing on this server" in unknown.output
