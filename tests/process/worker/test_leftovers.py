"""Nothing of a run outlives it: neither what its frames held, nor the context variables that it set."""

from __future__ import annotations

import fcntl
import sys

import pytest

from tests.process.stored import push
from tests.waiting import wait_for

ENDINGS = """
    import asyncio
    import fcntl
    import gc
    import logging
    import time
    from contextvars import ContextVar

    from offsider import Discard, current_job, job
    from offsider.ext.batches import Batches
    from offsider.ext.results import Results
    from tests.process.ledger import note

    gc.disable()  # a worker without jobs does not collect garbage either
    remembered = ContextVar("remembered")
    kept = []


    class Rows(list):
        '''A result that refers to an open file.'''


    class Keeping(logging.Handler):
        def emit(self, record):
            if record.exc_info and "kept" in str(record.exc_info[1]):
                kept.append(record)


    def configure(config):
        config.use(Batches())
        config.use(Results(keep_result=60))
        config.server_middleware.add(around)
        config.error_handlers.append(keep)
        logging.getLogger("offsider").addHandler(Keeping())


    def keep(error, context):
        if "kept" in str(error):
            kept.append(error)


    def around(job):
        if job.args[-1:] == ["middleware"]:
            held = lock(job.args[0])
            try:
                yield
            except ZeroDivisionError as error:
                raise LookupError("by middleware") from error
        else:
            yield


    def lock(path):
        file = open(path, "a")
        fcntl.flock(file, fcntl.LOCK_EX)
        note("locked", current_job().jid)
        return file


    def lines(path):
        with lock(path) as file:
            yield file


    @job(name="Ending", retry=1)
    def ending(path, how):
        if how == "middleware":
            1 / 0
        if how == "generator":
            left = lines(path)
            next(left)
            raise ValueError("beside a generator")
        held = lock(path)
        if how == "result":
            rows = Rows([1])
            rows.file = held
            return rows
        if how == "variable":
            remembered.set(held)
        if how == "log":
            current_job().log["file"] = held
        if how == "cycle":
            try:
                1 / 0
            except ZeroDivisionError as error:
                mine = error
                raise
        if how in ("cause", "context"):
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise LookupError(how) from (error if how == "cause" else None)
        if how == "group":
            try:
                1 / 0
            except ZeroDivisionError as error:
                members = [error, ExceptionGroup("inner", [KeyError()])]
            raise ExceptionGroup("outer", members)
        if how in ("soft", "hard"):
            while True:
                time.sleep(0.01)
        if how in ("discard", "exit"):
            raise (Discard if how == "discard" else SystemExit)("the end")
        if how in ("raise", "kept"):
            raise ValueError(how)


    @job(name="AsyncEnding", retry=1)
    async def async_ending(path, how):
        held = lock(path)
        await asyncio.sleep(0)
        if how == "variable":
            remembered.set(held)
        if how == "result":
            rows = Rows([1])
            rows.file = held
            return rows
        if how == "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(refuse(held))
        if how == "raise":
            raise ValueError(how)
        if how == "hard":
            await asyncio.sleep(60)


    async def refuse(held):
        raise ValueError("a task")
"""

HOURS = {"soft_timeout": 3600, "hard_timeout": 7200}
SOFT, HARD = {"soft_timeout": 0.5, "hard_timeout": 3600}, {"hard_timeout": 0.5}
PLAIN = [
    ("return", {}),
    ("result", HOURS),
    ("variable", {}),
    ("log", HOURS),
    ("raise", {}),
    ("raise", {"retry": False}),
    ("raise", {"retry": 0}),
    ("kept", {}),
    ("cycle", {}),
    ("cause", {}),
    ("context", {}),
    ("group", {}),
    ("generator", {}),
    ("middleware", {}),
    ("discard", {}),
    ("exit", {}),
    ("soft", SOFT),
    ("hard", HARD),
]
ASYNC = [
    ("return", {}),
    ("result", HOURS),
    ("variable", {}),
    ("raise", {}),
    # Before, frames of coroutines are not cleared, and TaskGroup makes a cycle.
    *([("group", {})] if sys.version_info >= (3, 13) else []),
    ("hard", HARD),
]


def is_free(path):
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("name", ["Ending", "AsyncEnding"])
def test_what_a_job_has_locked_is_free_once_the_job_has_ended(workers, stored, ledger, tmp_path, name):
    endings = ASYNC if name == "AsyncEnding" else PLAIN
    workers.start("-c", "1", text=ENDINGS, measured=False)
    left = []
    for number, (how, options) in enumerate(endings):
        path = tmp_path / f"{number}.lock"
        jid = push(stored, name, str(path), how, **{"retry": 1, **options})
        wait_for(lambda jid=jid: ledger.notes("locked", jid=jid))
        try:
            wait_for(lambda path=path: is_free(path), 20)
        except AssertionError:
            left.append((how, options))
    assert not left, left


VARIABLES = """
    from contextvars import ContextVar

    from offsider import current_job, job
    from tests.process.ledger import note

    tenant = ContextVar("tenant", default="nobody")
    failures = ContextVar("failures", default=0)


    def configure(config):
        config.server_middleware.add(around)
        config.error_handlers.append(lambda error, context: failures.set(failures.get() + 1))
        config.death_handlers.append(lambda payload, error: note("death", payload["jid"], tenant.get()))
        config.on("execution_finished", lambda news: failures.set(failures.get() + 1))


    def around(job):
        note("middleware", job.jid, tenant.get())
        if not job.name.endswith("Look"):
            tenant.set("of the middleware")
        yield


    def set_tenant():
        note("job", current_job().jid, tenant.get())
        tenant.set("of the job")


    def delay(count, error, payload):
        note("delay", payload["jid"], tenant.get())
        tenant.set("of retry_in")


    @job(name="Set")
    def set_it():
        set_tenant()


    @job(name="Fail", retry=1, retry_in=delay)
    def fail():
        set_tenant()
        raise ValueError


    @job(name="AsyncSet")
    async def async_set():
        set_tenant()


    @job(name="Look")
    def look():
        note("seen", current_job().jid, f"{tenant.get()}, {failures.get()}")


    @job(name="AsyncLook")
    async def async_look():
        note("seen", current_job().jid, f"{tenant.get()}, {failures.get()}")
"""


def test_each_job_starts_with_the_defaults_of_all_context_variables(workers, stored, ledger):
    workers.start("-c", "1", text=VARIABLES)
    for name in ("Set", "AsyncSet", "Fail"):
        setting = push(stored, name, retry=1)
        wait_for(lambda jid=setting: ledger.words("job", jid=jid) == ["of the middleware"])
        for look in ("Look", "AsyncLook"):
            jid = push(stored, look)
            wait_for(lambda jid=jid: ledger.notes("seen", jid=jid))
            assert ledger.words("seen", jid=jid) == ["nobody, 0"]
            assert ledger.words("middleware", jid=jid) == ["nobody"]


def test_the_callbacks_of_a_failed_job_see_the_variables_that_it_has_set(workers, stored, ledger):
    workers.start("-c", "1", text=VARIABLES)
    jid = push(stored, "Fail", retry=1)
    wait_for(lambda: ledger.words("delay", jid=jid) == ["of the job"])
    dying = push(stored, "Fail", retry=0)
    wait_for(lambda: ledger.words("death", jid=dying) == ["of the job"])
