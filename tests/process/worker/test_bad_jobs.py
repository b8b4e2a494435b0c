"""Invalid bytes, undeclared jobs, arguments that do not fit: reported, kept, and never stuck."""

from __future__ import annotations

import base64
import json
import random
import zlib
from pathlib import Path

from offsider.core.malformed import unwrap
from tests.process.stored import private, push, push_raw, sorted_set, waiting
from tests.waiting import wait_for

NO_JOB = {
    "no JSON": b"hello",
    "nothing": b"",
    "cut off": b'{"class":"Short","args":[',
    "a number": b"7",
    "a list": b'["Short",[1]]',
    "null": b"null",
    "no class": b'{"args":[1],"jid":"a"}',
    "an empty class": b'{"class":"","args":[1],"jid":"a"}',
    "a class that is no string": b'{"class":7,"args":[1],"jid":"a"}',
    "no args": b'{"class":"Short","jid":"a"}',
    "args that are an object": b'{"class":"Short","args":{"number":1},"jid":"a"}',
    "args that are null": b'{"class":"Short","args":null,"jid":"a"}',
    "a lone surrogate": b'{"class":"Short","args":["\\ud800"],"jid":"a"}',
    "a number beyond all numbers": b'{"class":"Short","args":[1e400],"jid":"a"}',
    "not a number": b'{"class":"Short","args":[NaN],"jid":"a"}',
    "5,000 levels": b'{"class":"Short","args":' + b"[" * 5000 + b"]" * 5000 + b',"jid":"a"}',
    "no UTF-8": b'{"class":"Short","args":["\xff"],"jid":"a"}',
    "200 random bytes": random.Random(7).randbytes(200),
}
ODD: dict[str, object] = {
    "log_level": 1,
    "retry": "often",
    "retry_count": "2",
    "backtrace": "10",
    "dead": "false",
    "kwargs": [1],
    "soft_timeout": "fast",
    "hard_timeout": True,
    "interrupted_count": "x",
    "tags": "a",
}


def test_an_invalid_job_is_wrapped_into_the_dead_set_and_the_worker_survives(workers, stored, ledger):
    push_raw(stored, *NO_JOB.values())
    fine = push(stored, "Short", 1)
    push(stored, "Nobody::Knows")
    worker = workers.start("-c", "3")
    wait_for(lambda: ledger.notes("end", jid=fine))
    wait_for(lambda: stored.zcard("dead") == len(NO_JOB))
    assert {unwrap(dead) for dead in stored.zrange("dead", 0, -1)} == set(NO_JOB.values())
    (unknown,) = wait_for(lambda: sorted_set(stored, "schedule"))
    wait_for(lambda: private(stored) == [])
    assert waiting(stored) == sorted_set(stored, "retry") == []
    assert ("stranded_at" in unknown, "retry_count" in unknown) == (True, False)
    worker.until_says("Nobody::Knows is not declared in this worker; no live worker of queue default can run it")
    worker.stopped()
    assert "a processor of capsule" not in worker.output
    assert len(ledger.notes("start")) == 1


def test_compressed_arguments_with_too_many_values_are_dead_and_cost_a_worker_little_memory(workers, stored, ledger):
    text = b"[" + b'{"a":0},' * 1_200_000 + b"0]"
    args = [base64.b64encode(zlib.compress(text)).decode()]
    worker = workers.start("-c", "1")
    push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end"))
    before = memory_mb(worker.pid, "VmRSS")
    push(stored, "Short", *args, compressed=True, original_job_size_bytes=len(text))
    (dead,) = wait_for(lambda: sorted_set(stored, "dead"))
    assert "would take about 360 MB of memory, more than 100 MB" in dead["error_message"]
    assert "client.large_payloads" in dead["error_message"]
    assert memory_mb(worker.pid, "VmHWM") - before < 150


def memory_mb(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) // 1024


def test_jobs_with_values_that_only_ruby_accepts_run_or_are_retried_and_none_is_buried(workers, stored, ledger):
    for name, value in ODD.items():
        push(stored, "Short", 1, jid=f"short {name}", **{name: value})
        push(stored, "Failing", jid=f"failing {name}", **{name: value})
        due = {"class": "Short", "args": [1], "jid": f"due {name}", name: value, "queue": "default"}
        stored.zadd("retry", {json.dumps(due): 1.0})
    push_raw(stored, b'{"class":"Short","args":[1],"jid":7}', b'{"class":"Short","args":[1],"jid":"8","queue":null}')
    push(stored, "Two", 2**70, 1, jid="9")
    push(stored, "Failing", 0.0, big=2**70)
    worker = workers.start("-c", "3")
    expected = {f"{kind} {name}" for kind in ("short", "due") for name in ODD} | {"7", "8", "9"}
    wait_for(lambda: set(ledger.counts("end")) == expected)
    wait_for(lambda: stored.zcard("retry") == len(ODD) + 1 and private(stored) == [])
    assert str(2**70 + 1) in ledger.words("end")
    assert [retry["big"] for retry in sorted_set(stored, "retry") if "big" in retry] == [2**70]
    assert stored.zcard("dead") == 0
    worker.stopped()
    assert "ignoring 'kwargs', because its value is an array" in worker.output


def test_queues_of_any_name_are_served(workers, stored, ledger):
    names = ["two words", "ä/ö", "a,b", "100%", "[x]*", "line\nline"]
    for number, name in enumerate(names):
        push(stored, "Short", 1, queue=name, jid=f"{number}")
    flags = [part for name in names for part in ("-q", f"{name},1")]
    workers.start(*flags)
    wait_for(lambda: set(ledger.counts("end")) == set("012345"))
    wait_for(lambda: private(stored) == [])


ODD_ERRORS = """
    from offsider import Config, job
    from tests.process.ledger import note


    class OddError(Exception):
        def __init__(self, kind):
            self.kind = kind

        def __str__(self):
            raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "memory": MemoryError}[self.kind]


    @job(name="Odd", retry=1, retry_in=lambda *given: 3600)
    def odd(kind):
        note("odd", word=kind)
        if kind == "huge":
            raise ValueError("INSERT INTO t VALUES " + "(1, 'x'), " * 2_000_000)
        if kind == "note":
            error = ValueError("a note")
            error.add_note("x" * 20_000_000)
            raise error
        if kind == "group":
            raise ExceptionGroup("many", [ValueError("y" * 1_000) for _ in range(20_000)])
        if kind == "class":
            raise type("E" * 20_000_000, (Exception,), {})
        if kind == "cause":
            raise KeyError from ValueError("z" * 20_000_000)
        raise OddError(kind)
"""
KINDS = ("exit", "interrupt", "memory", "huge", "note", "group", "class", "cause")


def test_a_job_with_any_error_fails_once_and_its_texts_are_bounded(workers, stored, ledger):
    worker = workers.start("-c", "2", text=ODD_ERRORS, environ={"OFFSIDER_LOG_FORMAT": "json"})
    for kind in KINDS:
        push(stored, "Odd", kind, retry=1, backtrace=True)
    wait_for(lambda: stored.zcard("retry") == len(KINDS), 60)
    assert sorted(ledger.words("odd")) == sorted(KINDS)
    worker.stopped()
    assert len(worker.output) < len(KINDS) * 150_000
    assert max(map(len, stored.zrange("retry", 0, -1))) < 30_000
    assert "died" not in worker.output


DEADLY = """
    from offsider.worker.fetch.reliable import ReliableFetcher
    from offsider.worker.disposition import Done
    from tests.process.jobs import *
    from tests.process.ledger import note


    def configure(config):
        config.death_handlers.append(lambda payload, error: note("death", payload["jid"], error))


    class Deadly(ReliableFetcher):
        def settle(self, unit, disposition):
            if b"Short" in unit.raw and type(disposition) is Done:
                raise SystemExit("a fault outside of the job")
            super().settle(unit, disposition)


    class Broken(ReliableFetcher):
        def retrieve(self):
            raise MemoryError("no job at all")
"""


def test_a_job_whose_threads_die_moves_to_the_dead_set(workers, stored, ledger):
    workers.start("-c", "2", text=DEADLY, environ={"OFFSIDER_WORKER_FETCHER": "app.Deadly"})
    jid = push(stored, "Short", 1, retry=False)
    wait_for(lambda: stored.zcard("dead") == 1)
    assert len(ledger.notes("end", jid=jid)) == 3
    (dead,) = sorted_set(stored, "dead")
    assert (dead["jid"], dead["error_class"], dead["error_message"]) == (
        jid,
        "SystemExit",
        "a fault outside of the job",
    )
    assert wait_for(lambda: ledger.words("death", jid=jid)) == ["a fault outside of the job"]
    assert private(stored) == []


def test_a_worker_whose_threads_die_without_a_job_exits(workers):
    worker = workers.start("-c", "5", text=DEADLY, environ={"OFFSIDER_WORKER_FETCHER": "app.Broken"}, wait=False)
    assert worker.ended(60) == 1
    assert "the threads of capsule default die one after the other" in worker.output
