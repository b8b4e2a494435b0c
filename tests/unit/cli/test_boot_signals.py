"""TERM and INT while the command imports its modules."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from offsider.cli import boot_signals
from offsider.cli.signals import SignalQueue

# Stops at the import of the module that imports the rest of the worker.
SLOW_IMPORT = """
import sys, time

class Slow:
    def find_spec(self, name, *_):
        if name == "offsider.cli.worker":
            print("importing", flush=True)
            while True:  # a signal just before a sleep has to wait for its end
                time.sleep(0.01)

from offsider.cli.main import main

sys.meta_path.insert(0, Slow())
main(["worker"])
"""


@pytest.fixture(autouse=True)
def restored():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_during_the_imports_ends_the_worker_with_code_0(number):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SLOW_IMPORT], **pipes) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_the_queue_replaces_the_handlers_and_restores_those_of_python():
    boot_signals.install()
    queue = SignalQueue()
    queue.install()
    os.kill(os.getpid(), signal.SIGTERM)
    assert queue.wait(10) == ["TERM"]
    queue.close()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_handlers_of_the_application_are_left_alone():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    boot_signals.install()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    boot_signals.uninstall()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_check_of_the_configuration_that_is_interrupted_does_not_exit_with_0():
    program = """
import os, signal
from offsider.cli import plan
from offsider.cli.main import main

plan.show_plan = lambda options: os.kill(os.getpid(), signal.SIGTERM)
main(["worker", "--dry-run"])
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == -signal.SIGTERM
