"""Lifecycle events of a worker, handlers that fail, and the layers around each job."""

from __future__ import annotations

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

EVENTS = """
    from offsider import job
    from tests.process.ledger import note
    from tests.process.jobs import short

    def configure(config):
        for name in ("startup", "quiet", "shutdown", "exit", "heartbeat", "beat"):
            for place in ("first", "second"):
                config.on(name, lambda name=name, place=place: note(name, word=place))
        config.on("execution_finished", lambda news: note("finished", news.job.jid, news.outcome))
"""


def test_lifecycle_events_are_emitted_in_order(workers, stored, ledger):
    jid = push(stored, "Short", 1)
    worker = workers.start(text=EVENTS)
    wait_for(lambda: "beat" in ledger.events() and ledger.notes("finished", jid=jid))
    worker.send("TSTP")
    wait_for(lambda: ledger.words("quiet") == ["second", "first"])
    worker.stopped()

    lifecycle = [(item.event, item.word) for item in ledger.notes() if item.event not in {"start", "end", "finished"}]
    assert lifecycle[:2] == [("startup", "first"), ("startup", "second")]
    assert [pair for pair in lifecycle if pair[0] == "heartbeat"] == [("heartbeat", "first"), ("heartbeat", "second")]
    assert lifecycle.index(("heartbeat", "second")) < lifecycle.index(("beat", "first"))
    down = [pair for pair in lifecycle if pair[0] in {"quiet", "shutdown", "exit"}]
    assert down == [(name, place) for name in ("quiet", "shutdown", "exit") for place in ("second", "first")]
    assert lifecycle[-4:] == down[-4:]


def test_an_error_at_startup_ends_the_start_and_names_the_cause(workers, stored, ledger):
    worker = workers.start(
        wait=False,
        text="""
        def configure(config):
            @config.on("startup")
            def prepare():
                raise LookupError("no such tenant")
        """,
    )
    assert worker.ended() == 1
    assert "LookupError: no such tenant" in worker.output
    assert "app.py:5" in worker.output
    assert "Traceback" not in worker.output
    assert stored.hlen("offsider:owners") == 0


def test_broken_handlers_are_reported_and_stop_nothing(workers, stored, ledger):
    app = """
        from tests.process.jobs import *
        from tests.process.ledger import note

        def broken(*anything):
            raise OSError("the handler is broken")

        def configure(config):
            for name in ("quiet", "shutdown", "exit", "beat", "execution_finished"):
                config.on(name, broken)
            config.on("exit", lambda: note("exit"))
            config.error_handlers.append(broken)
            config.error_handlers.append(lambda error, context: note("error", word=type(error).__name__))
            config.death_handlers.append(broken)
            config.death_handlers.append(lambda payload, error: note("death", payload["jid"], error))
    """
    push(stored, "Failing")
    dying = push(stored, "Failing", retry=0)
    gone = push(stored, "Failing", retry=False)
    worker = workers.start(text=app)
    wait_for(lambda: len(sorted_set(stored, "dead")) == 1 and len(ledger.notes("death")) == 2)
    fine = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=fine))
    worker.stopped()
    assert set(ledger.counts("death")) == {dying, gone}
    assert ledger.events()[-1] in {"exit", "error"}
    assert ledger.notes("exit")
    assert ledger.words("error").count("RuntimeError") == 3
    assert "an error handler failed while it reported" in worker.output
    assert private(stored) == waiting(stored) == []


def test_the_reloader_is_around_each_job_and_its_error_is_the_jobs(workers, stored, ledger):
    app = """
        from offsider import job
        from tests.process.ledger import note

        def reloader(job):
            note("before")
            if job.tags == ["broken"]:
                raise ConnectionError("no database")
            try:
                yield
            finally:
                note("after")

        @job(name="Work")
        def work(breaks):
            note("work")
            if breaks:
                raise ValueError("broken")

        def configure(config):
            config.reloader = reloader
    """
    for args in ([False], [True]):
        push(stored, "Work", *args)
    push(stored, "Work", False, tags=["broken"])
    workers.start("-c", "1", text=app)
    wait_for(lambda: len(sorted_set(stored, "retry")) == 2)
    assert ledger.events() == ["before", "work", "after"] * 2 + ["before"]
    assert {job["error_class"] for job in sorted_set(stored, "retry")} == {"ValueError", "ConnectionError"}


def test_a_job_that_ends_its_thread_or_process_is_a_failure_and_the_worker_lives(workers, stored, ledger):
    app = """
        import sys
        from offsider import job
        from tests.process.jobs import short

        class Unsayable(Exception):
            def __str__(self):
                raise TypeError("no words")

        @job(name="Exit")
        def exit_now():
            sys.exit(3)

        @job(name="Interrupt")
        def interrupt():
            raise KeyboardInterrupt

        @job(name="Unsayable")
        def unsayable():
            raise Unsayable

        @job(name="Cancelled")
        async def cancelled():
            import asyncio
            raise asyncio.CancelledError
    """
    names = {"Exit": "SystemExit", "Interrupt": "KeyboardInterrupt", "Unsayable": "app.Unsayable"}
    names["Cancelled"] = "asyncio.exceptions.CancelledError"
    for name in names:
        push(stored, name)
    worker = workers.start("-c", "1", text=app)
    wait_for(lambda: len(sorted_set(stored, "retry")) == 4)
    kinds = {job["class"]: job["error_class"] for job in sorted_set(stored, "retry")}
    assert {name: kind.rpartition(".")[2] for name, kind in kinds.items()} == {
        name: kind.rpartition(".")[2] for name, kind in names.items()
    }
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    worker.stopped()
