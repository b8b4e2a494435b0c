"""Jobs that fork: the child of a job is not a worker, and its fate does not affect the worker."""

from __future__ import annotations

import re

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

APP = """
    import asyncio, multiprocessing, os, subprocess, time
    from offsider import current_job, job
    from tests.process.jobs import *
    from tests.process.ledger import note

    fork = multiprocessing.get_context("fork")

    @job(name="Outlived", retry=False)
    def outlived():
        if current_job().interrupted_count == 0:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            note("forked")
            time.sleep(60)

    def once():
        jid = current_job().jid
        note("ran", jid)
        return jid

    def came_back(how, child_seconds=0):
        pid = os.fork()
        if pid == 0:
            time.sleep(child_seconds)
            if how == "raises":
                raise ValueError("from the child")
            if how == "exits":
                raise SystemExit(3)
            return 0
        return pid

    @job(name="ComesBack", retry=False)
    def comes_back(how, child_seconds=0):
        jid = once()
        if came_back(how, child_seconds):
            note("parent", jid)

    @job(name="ComesBackLimited", retry=False, soft_timeout=60)
    def comes_back_limited(how):
        jid = once()
        if came_back(how):
            note("parent", jid)

    @job(name="Waits", retry=False)
    def waits(how):
        jid = once()
        pid = came_back(how)
        if pid:
            time.sleep(0.5)
            note("child", jid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    @job(name="ComesBackAsync", retry=False)
    async def comes_back_async(how, awaits=False):
        jid = once()
        pid = came_back(how)
        if pid == 0 and awaits:
            await asyncio.sleep(1)
            note("went on", jid)
        if pid:
            note("parent", jid)

    @job(name="Sleeps", retry=False)
    async def sleeps():
        jid = once()
        for _ in range(30):
            await asyncio.sleep(0.05)
        note("slept", jid)

    @job(name="Pools", retry=False)
    def pools():
        jid = once()
        with fork.Pool(2) as pool:
            note("pooled", jid, sum(pool.map(abs, range(-10, 0))))
        process = fork.Process(target=os._exit, args=(5,))
        process.start()
        process.join()
        words = [process.exitcode, subprocess.call(["sh", "-c", "exit 6"])]
        words.append(subprocess.Popen(["sh", "-c", "exit 7"], preexec_fn=os.getpid).wait())
        note("codes", jid, words)

    def configure(config):
        def forks(job):
            result = (yield)
            if job.name == "Middle":
                os.fork()
            return result

        config.server_middleware.add(forks)
        config.error_handlers.append(lambda error, context: handled("error", context.get("job")))
        config.death_handlers.append(lambda payload, error: handled("death", payload))
        config.death_handlers.append(lambda payload, error: note("second death", payload["jid"]))
        config.on("execution_finished", lambda news: handled("finished", news.job.payload))

    def handled(where, payload):
        if payload and payload["class"] == "Callbacks":
            note(where, payload["jid"])
            if where in payload["args"]:
                os.fork()

    def callback(where):
        def call(*given):
            note(where, given[-1]["jid"] if where == "retry_in" else given[0]["jid"])
            if where in given[-1 if where == "retry_in" else 0]["args"]:
                os.fork()
            return 3600 if where == "retry_in" else None
        return call

    @job(name="Callbacks", retry_in=callback("retry_in"), on_exhausted=callback("exhausted"))
    def callbacks(where):
        note("ran", current_job().jid)
        raise ValueError("fails")

    @job(name="Middle", retry=False)
    def middle():
        note("middle", once())
"""


def ended_well(worker, stored, count: int) -> str:
    """Every job has ended once, in the worker; nothing is left of it, or of a child."""
    wait_for(lambda: private(stored) == [])
    wait_for(lambda: worker.output.count("returned to the worker") == count)
    assert worker.output.count(" fail") == 0
    assert sorted_set(stored, "retry") == sorted_set(stored, "dead") == waiting(stored) == []
    pids = re.findall(r"pid=(\d+)", worker.output)
    output = worker.stopped()
    assert set(pids) <= {str(worker.pid)}, "no line is a child's"
    return output


COME_BACK = {"ComesBack": "raises", "ComesBackLimited": "returns", "ComesBackAsync": "raises", "Middle": "returns"}


def test_a_returned_child_is_terminated_and_its_job_runs_once(workers, stored, ledger):
    worker = workers.start("-c", "2", text=APP, measured=False)
    jids = {push(stored, name, *([how] if name != "Middle" else [])): name for name, how in COME_BACK.items()}
    wait_for(lambda: len(ledger.notes("parent")) + len(ledger.notes("middle")) >= 4)
    later = push(stored, "Pools")
    wait_for(lambda: ledger.notes("codes", jid=later))
    output = ended_well(worker, stored, 4)
    assert ledger.counts("ran") == dict.fromkeys([*jids, later], 1)
    assert {item.pid for item in ledger.notes("ran")} == {worker.pid}
    for jid, name in jids.items():
        error = " with ValueError" if COME_BACK[name] == "raises" else ""
        line = rf"job {jid} \({name}\): a forked child \(process \d+\) returned to the worker{error} and was terminated"
        assert re.search(line, output)


def test_a_child_forked_in_a_callback_or_a_handler_ends_there(workers, stored, ledger):
    worker = workers.start("-c", "2", text=APP, measured=False)
    reported = {
        push(stored, "Callbacks", "retry_in", retry=25): ["retry_in"],
        push(stored, "Callbacks", "death", retry=0): ["exhausted", "death", "second death"],
    }
    wait_for(lambda: len(ledger.notes("finished")) == 2)
    wait_for(lambda: worker.output.count("returned to the worker") == 2)
    wait_for(lambda: stored.get("stat:failed") == b"2")
    for jid, events in reported.items():
        in_worker = [item.event for item in ledger.notes(jid=jid) if item.pid == worker.pid]
        assert in_worker == ["ran", *events, "error", "finished"]
    assert len(sorted_set(stored, "dead")) == len(sorted_set(stored, "retry")) == 1
    assert set(re.findall(r"pid=(\d+)", worker.output)) <= {str(worker.pid)}
    assert "lost ownership" not in worker.output
    worker.stopped()


def test_a_child_that_returns_after_its_job_is_terminated_as_well(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP, measured=False)
    jid = push(stored, "ComesBack", "returns", 2)
    wait_for(lambda: ledger.notes("parent", jid=jid))
    wait_for(lambda: private(stored) == [])
    ended_well(worker, stored, 1)


def test_a_child_that_awaits_does_not_run_the_loop_of_its_worker(workers, stored, ledger):
    worker = workers.start("-c", "3", text=APP, measured=False)
    others = [push(stored, "Sleeps") for _ in range(2)]
    wait_for(lambda: len(ledger.notes("ran")) == 2)
    jid = push(stored, "ComesBackAsync", "returns", True)
    wait_for(lambda: ledger.notes("parent", jid=jid))
    wait_for(lambda: len(ledger.notes("slept")) == 2)
    ended_well(worker, stored, 1)
    assert ledger.counts("slept") == dict.fromkeys(others, 1)
    assert ledger.notes("went on") == []


def test_a_job_that_waits_for_such_a_child_gets_its_exit_code(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP, measured=False)
    for how in ("raises", "exits"):
        push(stored, "Waits", how)
    wait_for(lambda: ledger.words("child") == ["70", "3"])
    ended_well(worker, stored, 1)


def test_a_child_that_outlives_its_killed_worker_receives_no_job(workers, stored, ledger):
    """The server would serve the pops that wait on the worker's connections, while a child kept those open."""
    worker = workers.start("-c", "4", text=APP, measured=False)
    jid = push(stored, "Outlived")
    wait_for(lambda: ledger.notes("forked"))
    worker.kill_alone()
    wait_for(lambda: [job["jid"] for job in waiting(stored)] == [jid])
    later = [push(stored, "Short", number) for number in range(3)]
    assert {job["jid"] for job in waiting(stored)} == {*later, jid}
    assert private(stored) == []
