"""gevent and eventlet: a patched process may push, and is no worker."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.process.stored import waiting

PATCHES = {
    "gevent": "from gevent import monkey\nmonkey.patch_all()\nfrom gevent import spawn, joinall\n",
    "eventlet": (
        "import warnings\nwarnings.simplefilter('ignore')\nimport eventlet\neventlet.monkey_patch()\n"
        "from eventlet import spawn\njoinall = lambda spawned: [each.wait() for each in spawned]\n"
    ),
}
JOB = """
from offsider import job

@job(name="Short")
def short(number): ...
"""
EMBEDDED = """
from offsider import OffsiderError
from offsider.worker.embed import EmbeddedWorker
try:
    EmbeddedWorker().start()
except OffsiderError as error:
    print(error)
"""
PUSHES = """
import time
ticks = []

def tick():
    while True:
        time.sleep(0.001)
        ticks.append(1)

spawn(tick)
joinall([spawn(short.enqueue, number) for number in range(100)])
short.enqueue_many([(number,) for number in range(100, 200)])
assert ticks, "a push blocks all green threads"
"""


# eventlet is not among the requirements of development: its import warns, and sentry-sdk imports it.
@pytest.fixture(params=["gevent", *(["eventlet"] if find_spec("eventlet") else [])])
def library(request):
    return request.param


@pytest.mark.parametrize("options", ["", "-p 2"])
def test_a_patched_application_is_refused_with_the_reason(workers, library, options):
    worker = workers.start(*options.split(), text=PATCHES[library] + JOB, wait=False)
    assert worker.ended() == 1
    (line,) = [line for line in worker.output.splitlines() if line.startswith("offsider: ")]
    assert line.startswith(f"offsider: {library} has patched this process")


def run(program: str, url: str) -> str:
    # On a busy machine, 100 threads may wait for a connection longer than a second.
    environ = os.environ | {"REDIS_URL": url, "OFFSIDER_CLIENT_PUSH_TIMEOUT_SECONDS": "30"}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def test_a_worker_inside_a_patched_program_is_refused(library, url):
    assert run(PATCHES[library] + EMBEDDED, url).startswith(f"{library} has patched this process")


def test_green_threads_push(library, url, stored):
    run(PATCHES[library] + JOB + PUSHES, url)
    assert sorted(job["args"][0] for job in waiting(stored)) == list(range(200))
