"""Each death of a worker process is in the event log, with how it ended and how many jobs it held."""

from __future__ import annotations

from collections import Counter

from offsider.inspector import EventLog
from tests.process.stored import push
from tests.waiting import wait_for

ENVIRON = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3", "OFFSIDER_WORKER_MAX_STRIKES": "1"}
APP = """
    import os, signal
    from offsider import job

    @job(name="Dies")
    def dies(number):
        os.kill(os.getpid(), number)
"""


def test_crashes_leave_a_trace(workers, stored, config):
    log = EventLog(config)
    worker = workers.start("-p", "2", "-c", "1", text=APP, environ=ENVIRON)
    wait_for(lambda: len(log.read(kinds=["process-started"])) == 2)
    for number in (9, 11):
        push(stored, "Dies", number)

    def died() -> Counter[tuple[str, str]]:
        return Counter((event.fields["how"], event.fields["jobs"]) for event in log.read(kinds=["process-died"]))

    expected = {("was killed by SIGKILL", "1"): 1, ("was killed by SIGSEGV", "1"): 1}
    wait_for(lambda: died() == expected and len(log.read(kinds=["poison-pill"])) == 2, 60)
    pills = log.read(kinds=["poison-pill"])
    assert [(event.fields["class"], event.fields["processes"]) for event in pills] == [("Dies", "1")] * 2
    wait_for(lambda: len(log.read(kinds=["process-started"])) == 4)
    worker.stopped()
    events = log.read(count=1_000)
    assert Counter(event.kind for event in events) == {
        "process-started": 4, "process-died": 2, "poison-pill": 2, "process-ended": 2
    }  # fmt: skip
    started = {event.subject for event in events if event.kind == "process-started"}
    assert started == {event.subject for event in events if event.kind in {"process-died", "process-ended"}}


def test_a_quiet_worker_and_its_end_are_in_the_log(workers, config):
    worker = workers.start("-c", "1", environ={"OFFSIDER_CLIENT_APP_VERSION": "v42"})
    worker.send("TSTP")
    wait_for(lambda: EventLog(config).read(kinds=["process-quiet"]))
    worker.stopped()
    events = [event for event in EventLog(config).read() if event.kind != "deploy"]
    assert [event.kind for event in events] == ["process-ended", "process-quiet", "process-started"]
    assert {(event.subject, event.fields["release"]) for event in events} == {(worker.identity, "v42")}
