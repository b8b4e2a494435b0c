"""Signals become names in a queue; handlers that were there before are called first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from offsider.cli.signals import SignalQueue, StoppedEarly, send_to_self
from offsider.core.errors import ConfigurationError

WAIT = 10.0
NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGTSTP, signal.SIGTTIN)


@pytest.fixture(autouse=True)
def restored():
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def queue():
    made = SignalQueue()
    made.install()
    yield made
    made.close()


def send(number):
    os.kill(os.getpid(), number)


def collect(queue, count):
    names = []
    while len(names) < count:
        arrived = queue.wait(WAIT)
        assert arrived, f"only {names} arrived"
        names += arrived
    return names


def test_signals_arrive_as_names(queue):
    for number in NUMBERS:
        send(number)
    assert sorted(collect(queue, 4)) == ["INT", "TERM", "TSTP", "TTIN"]


def test_a_wait_ends_after_its_time_or_a_wake(queue):
    assert queue.wait(0) == []
    queue.wake()
    assert queue.wait(WAIT) == []


def test_a_signal_sent_through_redis_reaches_the_handlers_of_the_application(queue):
    seen = []
    signal.signal(signal.SIGTSTP, lambda number, frame: seen.append(number))
    queue.install()
    send_to_self("TSTP")
    assert collect(queue, 1) == ["TSTP"]
    assert seen == [signal.SIGTSTP]


@pytest.mark.parametrize("name", ["KILL", "USR1", "NONSENSE", ""])
def test_other_signals_sent_through_redis_are_ignored(name, caplog):
    send_to_self(name)
    assert f"ignoring the signal {name}" in caplog.text


REPEATED = """
import logging, os, signal
from offsider.cli.signals import SignalQueue

logging.basicConfig(format="%(message)s")
queue = SignalQueue()
queue.install()
for number in (signal.SIGPROF, signal.SIGPROF, signal.SIGUSR1):
    os.kill(os.getpid(), number)
    queue.wait(10)
"""


def test_a_repeated_signal_without_a_meaning_is_logged_once():
    output = subprocess.run([sys.executable, "-c", REPEATED], check=True, capture_output=True, text=True).stderr
    assert output.splitlines() == [f"ignoring the signal {name}: offsider does not use it" for name in ("PROF", "USR1")]


def test_handlers_set_later_by_the_application_are_kept(queue):
    seen = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    queue.install()
    queue.install()
    send(signal.SIGTERM)
    assert collect(queue, 1) == ["TERM"]
    assert seen == [signal.SIGTERM]


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(1)])
def test_a_failing_earlier_handler_is_reported_and_the_signal_counts(queue, error):
    def fail(number, frame):
        raise error

    signal.signal(signal.SIGTERM, fail)
    queue.install()
    send(signal.SIGTERM)
    assert collect(queue, 1) == ["TERM"]
    assert queue.failures() == [("TERM", error)]
    assert queue.failures() == []


def test_while_booting_a_stop_is_raised_at_once(queue):
    queue.booting = True
    with pytest.raises(StoppedEarly):
        send(signal.SIGTERM)
    send(signal.SIGTSTP)


def test_closing_restores_the_previous_handlers():
    before = [signal.getsignal(number) for number in NUMBERS]
    fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(fd)
    queue = SignalQueue()
    queue.install()
    queue.close()
    assert [signal.getsignal(number) for number in NUMBERS] == before
    assert signal.set_wakeup_fd(fd) == fd


def test_only_the_main_thread_may_install():
    errors = []

    def install():
        try:
            queue.install()
        except ConfigurationError as error:
            errors.append(str(error))

    queue = SignalQueue()
    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    queue.close()
    assert "in the main thread" in errors[0]


def test_a_wait_ends_early_when_another_descriptor_is_readable():
    signals = SignalQueue()
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        started = time.monotonic()
        assert signals.wait(20, [reading]) == []
        assert time.monotonic() - started < 10
    finally:
        signals.close()
        os.close(reading)
        os.close(writing)


FORKING = """
import os, signal
from offsider.cli.signals import SignalQueue

hooks = []
os.register_at_fork(after_in_child=lambda: hooks and os.kill(os.getpid(), signal.SIGTERM))
queue = SignalQueue()
queue.install()
hooks.append("from now on a child gets a signal before the hook of the queue runs")
pid = os.fork()
if pid == 0:
    os._exit(0)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), queue.wait(0.2), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


def test_a_signal_for_a_child_that_was_just_forked_ends_the_child_and_does_not_reach_the_worker():
    output = subprocess.run([sys.executable, "-c", FORKING], check=True, capture_output=True, text=True).stdout
    assert output.split(maxsplit=1) == ["-15", "[] set()\n"]
