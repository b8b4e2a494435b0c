"""Jobs that fork: the child of a job is not a worker, and its fate does not affect the worker."""

from __future__ import annotations

import re

import pytest

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

APP = """
    import asyncio, multiprocessing, os, subprocess, time
    from offsider import current_job, job
    from tests.process.jobs import short
    from tests.process.ledger import note

    fork = multiprocessing.get_context("fork")

    @job(name="Terminates", retry=False)
    def terminates():
        child = fork.Process(target=time.sleep, args=(60,))
        child.start()
        time.sleep(0.3)
        child.terminate()
        child.join(10)
        note("child", word=child.exitcode)

    @job(name="Outlived", retry=False)
    def outlived():
        if current_job().interrupted_count == 0:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            note("forked")
            time.sleep(60)

    @job(name="Pushes", retry=False)
    def pushes():
        child = fork.Process(target=push_some)
        child.start()
        child.join(10)
        note("child", word=child.exitcode)

    def push_some():
        for number in range(3):
            short.using(tags=["x" * 2000]).enqueue(number)

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
        config.client.large_payload_bytes = 1000
        config.on("large_payload", lambda news: note("large"))

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
    wait_for(lambda: int(stored.get("stat:processed") or 0) >= 0 and private(stored) == [])
    wait_for(lambda: worker.output.count("returned to the worker") == count, 15)
    assert worker.output.count(" fail") == 0
    assert sorted_set(stored, "retry") == sorted_set(stored, "dead") == waiting(stored) == []
    pids = re.findall(r"pid=(\d+)", worker.output)
    output = worker.stopped()
    assert set(pids) <= {str(worker.pid)}, "no line is a child's"
    return output


@pytest.mark.parametrize("name", ["ComesBack", "ComesBackLimited", "ComesBackAsync", "Middle"])
@pytest.mark.parametrize("how", ["returns", "raises"])
def test_a_returned_child_is_terminated_and_its_job_runs_once(workers, stored, ledger, name, how):
    worker = workers.start("-c", "2", text=APP, measured=False)
    jids = [push(stored, name, *([how] if name != "Middle" else [])) for _ in range(4)]
    wait_for(lambda: len(ledger.notes("parent")) + len(ledger.notes("middle")) >= 4)
    later = push(stored, "Pools")
    wait_for(lambda: ledger.notes("codes", jid=later), 30)
    output = ended_well(worker, stored, 4)
    assert ledger.counts("ran") == dict.fromkeys([*jids, later], 1)
    assert {item.pid for item in ledger.notes("ran")} == {worker.pid}
    error = " with ValueError" if how == "raises" and name != "Middle" else ""
    for jid in jids:
        line = rf"job {jid} \({name}\): a forked child \(process \d+\) returned to the worker{error} and was terminated"
        assert re.search(line, output)


@pytest.mark.parametrize("where", ["retry_in", "exhausted", "error", "death", "finished"])
def test_a_child_forked_in_a_callback_or_a_handler_ends_there(workers, stored, ledger, where):
    worker = workers.start("-c", "2", text=APP, measured=False)
    dies = where in ("exhausted", "death")
    jid = push(stored, "Callbacks", where, retry=0 if dies else 25)
    wait_for(lambda: ledger.notes("finished", jid=jid))
    wait_for(lambda: worker.output.count("returned to the worker") == 1, 15)
    wait_for(lambda: stored.get("stat:failed") == b"1")
    reported = ["exhausted", "death", "second death"] if dies else ["retry_in"]
    in_worker = [item.event for item in ledger.notes(jid=jid) if item.pid == worker.pid]
    assert in_worker == ["ran", *reported, "error", "finished"]
    assert len(sorted_set(stored, "dead" if dies else "retry")) == 1
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
    wait_for(lambda: len(ledger.notes("slept")) == 2, 20)
    ended_well(worker, stored, 1)
    assert ledger.counts("slept") == dict.fromkeys(others, 1)
    assert ledger.notes("went on") == []


@pytest.mark.parametrize("how, code", [("returns", 70), ("raises", 70), ("exits", 3)])
def test_a_job_that_waits_for_such_a_child_gets_its_exit_code(workers, stored, ledger, how, code):
    worker = workers.start("-c", "1", text=APP, measured=False)
    jid = push(stored, "Waits", how)
    wait_for(lambda: ledger.notes("child", jid=jid))
    assert ledger.words("child") == [str(code)]
    ended_well(worker, stored, 0 if how == "exits" else 1)


def test_pools_processes_and_subprocesses_of_a_job_work_and_keep_their_exit_codes(workers, stored, ledger):
    worker = workers.start("-c", "2", text=APP, measured=False)
    jids = [push(stored, "Pools") for _ in range(6)]
    wait_for(lambda: len(ledger.notes("codes")) == 6, 40)
    assert ledger.words("codes") == ["[5, 6, 7]"] * 6
    assert ledger.words("pooled") == ["55"] * 6
    ended_well(worker, stored, 0)
    assert ledger.counts("ran") == dict.fromkeys(jids, 1)


def test_a_signal_to_the_child_of_a_job_does_not_reach_the_worker(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP)
    push(stored, "Terminates")
    wait_for(lambda: ledger.words("child") == ["-15"])
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert "stopping" not in worker.output
    worker.stopped()


def test_a_child_may_push_jobs(workers, stored, ledger):
    worker = workers.start("-c", "1", text=APP)
    push(stored, "Pushes")
    wait_for(lambda: ledger.words("child") == ["0"])
    wait_for(lambda: sorted(ledger.words("end")) == ["0", "1", "2"])
    assert len(ledger.notes("large")) == 3  # a listener in the child does not end it
    wait_for(lambda: private(stored) == [])
    worker.stopped()


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
