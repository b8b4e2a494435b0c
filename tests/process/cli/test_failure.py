"""A process ends in time with anything still running in it, and its exit handlers run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

PROGRAM = """
    import atexit, sys, threading
    from offsider.cli.failure import end_process
    {more}
    sys.stdout.write("written")
    end_process({code}, within_seconds={within})
"""


def run(more="", *, code=0, within=30.0):
    text = textwrap.dedent(PROGRAM).format(more=textwrap.dedent(more).strip(), code=code, within=within)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)


def test_output_is_flushed_and_the_code_kept():
    ended = run(code=3)
    assert (ended.stdout, ended.returncode) == ("written", 3)


def test_functions_registered_for_the_end_are_called():
    assert run("atexit.register(lambda: print(' bye', end=''))").stdout == "written bye"


def test_a_thread_that_never_ends_is_abandoned():
    started = time.monotonic()
    assert run("threading.Thread(target=threading.Event().wait).start()").returncode == 0
    assert time.monotonic() - started < 20


def test_a_function_that_hangs_is_cut_short():
    assert run("atexit.register(threading.Event().wait)", within=0.2).returncode == 0


def test_a_failing_exit_function_does_not_fail_the_worker():
    ended = run("def fail():\n    raise SystemExit(7)\natexit.register(fail)")
    assert (ended.stdout, ended.returncode) == ("written", 0)
