"""Invalid bytes, undeclared jobs, arguments that do not fit: reported, kept, and never stuck."""

from __future__ import annotations

import base64
import json
import random
import zlib
from pathlib import Path

import pytest

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
    worker = workers.start("-c", "3")
    wait_for(lambda: ledger.notes("end", jid=fine))
    wait_for(lambda: stored.zcard("dead") == len(NO_JOB))
    assert {unwrap(dead) for dead in stored.zrange("dead", 0, -1)} == set(NO_JOB.values())
    wait_for(lambda: private(stored) == [])
    assert waiting(stored) == sorted_set(stored, "retry") == []
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
    worker = workers.start("-c", "3")
    expected = {f"{kind} {name}" for kind in ("short", "due") for name in ODD} | {"7", "8"}
    wait_for(lambda: set(ledger.counts("end")) == expected)
    wait_for(lambda: stored.zcard("retry") == len(ODD) and private(stored) == [])
    assert stored.zcard("dead") == 0
    worker.stopped()
    assert "ignoring 'kwargs', because its value is an array" in worker.output


def test_invalid_bytes_in_the_sets_do_not_block_later_jobs(workers, stored, ledger):
    fine = b'{"class":"Short","args":[1],"jid":"fine","queue":"default"}'
    for name in ("schedule", "retry"):
        stored.zadd(name, dict.fromkeys(NO_JOB.values(), 1.0))
        stored.zadd(name, {fine.replace(b"fine", name.encode()): 2.0})
    workers.start()
    wait_for(lambda: set(ledger.counts("end")) == {"schedule", "retry"})
    wait_for(lambda: stored.zcard("schedule") == stored.zcard("retry") == 0)
    assert set(NO_JOB.values()) <= {unwrap(dead) for dead in stored.zrange("dead", 0, -1)}


def test_a_job_without_a_jid_runs_and_gets_one_when_it_fails(workers, stored, ledger):
    push_raw(stored, b'{"class":"Short","args":[1]}', b'{"class":"Failing","args":[]}')
    workers.start()
    wait_for(lambda: ledger.notes("end"))
    (retry,) = wait_for(lambda: sorted_set(stored, "retry"))
    assert len(retry["jid"]) == 24
    wait_for(lambda: private(stored) == [])


def test_a_job_of_an_unregistered_class_is_stranded_and_logged(workers, stored):
    push(stored, "Nobody::Knows")
    worker = workers.start()
    (waits,) = wait_for(lambda: sorted_set(stored, "schedule"))
    assert ("stranded_at" in waits, "retry_count" in waits) == (True, False)
    assert stored.zcard("retry") == 0
    worker.until_says("Nobody::Knows is not declared in this worker; no live worker of queue default can run it")
    assert private(stored) == []


def test_without_stranding_an_unknown_class_is_retried_with_an_error(workers, stored):
    push(stored, "Nobody::Knows")
    worker = workers.start(environ={"OFFSIDER_WORKER_STRANDED_DAYS": "0"})
    (retry,) = wait_for(lambda: sorted_set(stored, "retry"))
    assert "Nobody::Knows" in retry["error_message"]
    assert retry["retry_count"] == 0
    assert "UnknownJob" in retry["error_class"]
    worker.until_says("UnknownJob")
    assert private(stored) == []


@pytest.mark.parametrize("retry", [False, 0])
def test_without_stranding_an_unknown_class_without_retries_is_dead_at_once(workers, stored, retry):
    push(stored, "Nobody::Knows", retry=retry)
    workers.start(environ={"OFFSIDER_WORKER_STRANDED_DAYS": "0"})
    (dead,) = wait_for(lambda: sorted_set(stored, "dead"))
    assert "UnknownJob" in dead["error_class"]


@pytest.mark.parametrize(
    "args, fields", [([1], {}), ([1, 2, 3], {}), ([1, 2], {"kwargs": {"third": 3}}), ([], {"kwargs": {"first": 1}})]
)
def test_arguments_that_no_longer_fit_are_retried_with_both_named(workers, stored, args, fields):
    push(stored, "Two", *args, **fields)
    workers.start()
    (retry,) = wait_for(lambda: sorted_set(stored, "retry"))
    assert "Two" in retry["error_message"]
    assert "Two(first: int, second: int)" in retry["error_message"].replace("'", "")  # the signature of the job
    assert f"({len(args)} positional" in retry["error_message"]  # the number of its arguments, never their values
    assert retry["error_class"].endswith("InvalidArguments")


def test_big_numbers_survive_a_run_and_a_retry(workers, stored, ledger):
    push(stored, "Two", 2**70, 1)
    push(stored, "Failing", 0.0, big=2**70)
    workers.start()
    wait_for(lambda: ledger.words("end") == [str(2**70 + 1)])
    (retry,) = wait_for(lambda: sorted_set(stored, "retry"))
    assert retry["big"] == 2**70


def test_a_queue_of_the_wrong_type_does_not_block_other_queues(workers, stored, ledger):
    stored.set("queue:odd", "a string")
    worker = workers.start("-q", "odd", "-q", "default")
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))
    worker.stopped()


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


    @job(name="Odd", retry=1)
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


@pytest.mark.parametrize("options", [{}, {"OFFSIDER_LOG_FORMAT": "json"}])
def test_a_job_with_any_error_fails_once_and_its_texts_are_bounded(workers, stored, ledger, options):
    worker = workers.start("-c", "2", text=ODD_ERRORS, environ=options)
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
