"""The cost of a warm child of isolated jobs, in round trips of one byte over a pipe between two processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os, time
from offsider import Config, job
from offsider.cli.isolated import children_for
from offsider.core.payload import encode
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.storage.working import Owner

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the wake-up of another core takes longer than all else

@job(name="Noop", isolated=True)
def noop(): ...

payload = {"class": "Noop", "args": [], "jid": "a" * 24, "queue": "default", "created_at": 1.7e12}
raw, declared, owner = encode(payload), registry.find("Noop"), Owner("host:1:0123456789ab", "default")
children = children_for(Config(), lambda: None)

def warm():
    children.begin(JobContext(payload, "default", raw, declared, owner=owner), "default").result()

(theirs, ours_out), (ours, theirs_out) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(ours_out)
    while data := os.read(theirs, 1):
        os.write(theirs_out, data)
    os._exit(0)

def bare():
    os.write(ours_out, b"x")
    os.read(ours, 1)

def seconds(call):
    began = time.perf_counter()
    for _ in range(300):
        call()
    return time.perf_counter() - began

rounds = [(seconds(warm), seconds(bare)) for _ in range(20)][1:]
print(min(one for one, _ in rounds) / min(other for _, other in rounds), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs one core (Linux)")
def test_a_warm_child_costs_a_few_round_trips():
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    found = float(subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout)
    assert found < 9  # 7, and 10 with a dataclass and an exception in each run
