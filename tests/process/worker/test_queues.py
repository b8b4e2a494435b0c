"""Which jobs a worker takes: one at a time, by weight, from all queues, not from paused ones."""

from __future__ import annotations

import pytest

from tests.process.stored import private, push, waiting
from tests.waiting import wait_for


def test_concurrency_1_runs_strictly_one_after_another(workers, stored, ledger):
    for number in range(20):
        push(stored, "Short", number, 0.01)
    workers.start("-c", "1")
    wait_for(lambda: len(ledger.notes("end")) == 20)
    assert ledger.events() == ["start", "end"] * 20
    assert ledger.words("end") == [str(number) for number in range(20)]


def test_a_capsule_with_concurrency_1_runs_strictly_one_after_another(workers, stored, ledger):
    app = """
        from tests.process import jobs

        def configure(config):
            config.capsule("serial", concurrency=1, queues=["serial"])
    """
    for number in range(10):
        push(stored, "Short", number, 0.05, queue="serial")
        push(stored, "Short", 100, 0.05)
    workers.start("-c", "3", text=app)
    serial = {job["jid"] for job in waiting(stored, "serial")} | {item.jid for item in ledger.notes("start")}
    wait_for(lambda: len(ledger.notes("end")) == 20)
    assert serial
    numbers = [item.word for item in ledger.notes("end") if item.word != "100"]
    assert numbers == [str(number) for number in range(10)]
    ours = {item.jid for item in ledger.notes("end") if item.word != "100"}
    events = [item.event for item in ledger.notes() if item.jid in ours]
    assert events == ["start", "end"] * 10


def test_several_threads_run_jobs_at_the_same_time(workers, stored, ledger):
    for number in range(4):
        push(stored, "Short", number, 1.0)
    workers.start("-c", "4")
    wait_for(lambda: len(ledger.notes("end")) == 4)
    assert ledger.events() == ["start"] * 4 + ["end"] * 4


def test_strict_queues_are_emptied_in_their_order(workers, stored, ledger):
    for queue in ("low", "high", "middle"):
        for _ in range(5):
            push(stored, "Named", queue, queue=queue)
    workers.start("-c", "1", "-q", "high", "-q", "middle", "-q", "low", text=NAMED)
    wait_for(lambda: len(ledger.notes("ran")) == 15)
    assert ledger.words("ran") == ["high"] * 5 + ["middle"] * 5 + ["low"] * 5


def test_weights_decide_how_often_a_queue_is_first(workers, stored, ledger):
    """The order is drawn for each claim, and a claim of short jobs takes some ten."""
    for queue in ("often", "seldom"):
        with stored.pipeline() as pipeline:
            for _ in range(2000):
                push(pipeline, "Named", queue, queue=queue)
            pipeline.execute()
    workers.start("-c", "1", "-q", "often,9", "-q", "seldom,1", text=NAMED)
    wait_for(lambda: len(ledger.notes("ran")) >= 1500)
    first = ledger.words("ran")[:1500]
    assert first.count("often") > 1050  # 1350 are expected, 750 if weights meant nothing
    assert "seldom" in first


NAMED = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="Named")
    def named(name):
        note("ran", word=name)
"""


def test_a_star_serves_every_queue_and_finds_a_new_one(workers, stored, ledger):
    push(stored, "Short", 1, queue="known")
    workers.start("-q", "*")
    wait_for(lambda: len(ledger.notes("end")) == 1)
    push(stored, "Short", 2, queue="brand-new:one")
    wait_for(lambda: len(ledger.notes("end")) == 2, 10)
    wait_for(lambda: private(stored) == [])


EVERY_PLACE = """
    from offsider import job
    from offsider.ext.periodic import Periodic
    from tests.process.ledger import note

    @job(name="Plain")
    def plain(name):
        note("ran", word=name)

    @job(name="Mail", queue="mails", retry_queue="second tries")
    def mail(name):
        note("ran", word=name)

    @job(name="Alarm", urgency="high")
    def alarm(name):
        note("ran", word=name)

    @job(name="Report")
    def report(name):
        note("ran", word=name)

    def configure(config):
        config.capsule("slow", concurrency=1, queues=["reports"])
        config.routing.rules = [
            ["urgency=high", "urgent"],
            ["worker_name=Mail", "mails"],
            ["worker_name=Report", "reports"],
            ["*", "default"],
        ]
        periodic = Periodic()
        periodic.register("0 3 1 1 *", plain, args=["nightly"], queue="nightly")
        config.use(periodic)
"""


def test_a_worker_without_queues_serves_those_of_its_jobs(workers, stored, ledger):
    """Declared ones, those of retries, rules, periodic jobs and other capsules; no queue of other programs."""
    queues = {
        "default": "Plain",
        "mails": "Mail",
        "second tries": "Mail",
        "urgent": "Alarm",
        "nightly": "Plain",
        "reports": "Report",
    }
    for queue, name in {**queues, "foreign": "Plain"}.items():
        push(stored, name, queue, queue=queue)
    worker = workers.start("-c", "2", text=EVERY_PLACE)
    wait_for(lambda: len(ledger.notes("ran")) == len(queues))
    assert set(ledger.words("ran")) == set(queues)
    assert len(waiting(stored, "foreign")) == 1
    assert "queues default,1, mails,1, nightly,1, second tries,1, urgent,1, random>" in worker.output
    assert "does not serve" not in worker.output


@pytest.mark.parametrize(
    "options, environ",
    [(("-q", "default"), {}), ((), {"OFFSIDER_WORKER_QUEUES": "default"})],
)
def test_chosen_queues_replace_those_of_the_jobs(workers, stored, ledger, options, environ):
    jid = push(stored, "Mail", "mails", queue="mails")
    worker = workers.start("-c", "1", *options, environ=environ, text=EVERY_PLACE)
    push(stored, "Plain", "default")
    wait_for(lambda: ledger.words("ran") == ["default"])
    assert [job["jid"] for job in waiting(stored, "mails")] == [jid]
    worker.until_says("this worker does not serve mails (Mail), ")


def test_a_paused_queue_is_not_served_until_it_is_resumed(workers, stored, ledger):
    stored.sadd("paused", "default")
    jid = push(stored, "Short", 1)
    workers.start("-q", "default", "-q", "open")
    for _ in range(3):
        ended = push(stored, "Short", 2, queue="open")
        wait_for(lambda ended=ended: ledger.notes("end", jid=ended))
    assert not ledger.notes("start", jid=jid)

    stored.srem("paused", "default")
    wait_for(lambda: ledger.notes("end", jid=jid))
    stored.sadd("paused", "default")

    def kept_back() -> str:
        """A job of the paused queue that waits although one that was pushed later has run."""
        jid, later = push(stored, "Short", 3), push(stored, "Short", 4, queue="open")
        wait_for(lambda: ledger.notes("end", jid=later))
        return jid if jid in [job["jid"] for job in waiting(stored)] else ""

    second = wait_for(kept_back)  # workers read what is paused once a second
    ended = push(stored, "Short", 5, queue="open")
    wait_for(lambda: ledger.notes("end", jid=ended))
    assert not ledger.notes("start", jid=second)


def test_a_queue_named_twice_is_refused(workers):
    worker = workers.start("-q", "default", "-q", "default", wait=False)
    assert worker.ended() == 1
    assert "default" in worker.output
    assert "Traceback" not in worker.output


def test_jobs_pushed_by_jobs_and_scheduled_ones_run(workers, stored, ledger):
    app = """
        from offsider import job
        from tests.process.ledger import note

        @job(name="Child", queue="other")
        def child(number):
            note("child", word=number)

        @job(name="Parent")
        def parent():
            child.enqueue(1)
            child.enqueue_in(0.2, 2)
    """
    push(stored, "Parent")
    workers.start("-q", "default", "-q", "other", text=app)
    wait_for(lambda: ledger.words("child") == ["1", "2"])
    assert stored.zcard("schedule") == 0
