"""The core of a forked worker; descriptors it closes are checked in `test_supervisor`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from offsider.cli.options import WorkerOptions
from offsider.cli.signals import SignalQueue
from offsider.cli.supervisor.fork import Forker
from offsider.cli.supervisor.parent_link import make_parent_link
from offsider.config.config import Config
from offsider.core.errors import ConfigurationError
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.alive.keeper.channel import Channel
from offsider.worker.alive.keeper.link import KeeperLink, Status


@pytest.mark.parametrize(
    "error, code, message",
    [
        (ConfigurationError("it is wrong"), 1, "offsider: it is wrong"),
        (RuntimeError("a fault"), 1, "RuntimeError: a fault"),
        (KeyboardInterrupt(), 0, ""),
    ],
)
def test_an_error_of_a_worker_never_returns_into_the_supervisor(capfd, error, code, message):
    def work_as(*_):
        raise error

    channel, signals = Channel(), SignalQueue()
    forker = Forker(WorkerOptions(), Config(), channel, signals, work_as=work_as)
    child = forker.fork(0, [])
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == code
    assert message in capfd.readouterr().err
    for end in (child.parent_link, channel, signals):
        end.close()


INTERRUPTED = """
import os, signal
from offsider.cli.options import WorkerOptions
from offsider.cli.signals import SignalQueue
from offsider.cli.supervisor.fork import Forker
from offsider.config.config import Config

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
hooks = []
os.register_at_fork(after_in_child=lambda: hooks and os.kill(os.getpid(), signal.{name}))
signals = SignalQueue()
signals.install()
forker = Forker(WorkerOptions(), Config(), None, signals, work_as=lambda *_: 5)
hooks.append("from now on a child gets a signal before the hook of the queue runs")
child = forker.fork(0, [])
_, status = os.waitpid(child.pid, 0)
print(os.waitstatus_to_exitcode(status), signals.wait(0), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_during_the_fork_ends_the_worker_with_code_0_and_no_traceback(name):
    command = [sys.executable, "-c", INTERRUPTED.format(name=name)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""
    assert ended.stdout == "0 [] set()\n"


def test_a_worker_keeps_only_its_own_ends_of_shared_descriptors(monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    reading, writing = os.pipe()
    channel, signals, let_go = Channel(), SignalQueue(), []

    def work_as(_options, keeper, forked):
        link = KeeperLink(keeper, Status)
        link.owns(Lists("host:1:aaaaaaaaaaaa", {}), 9000, RedisSettings())
        forked.say_ready(3)
        reported = ["NOTIFY_SOCKET" in os.environ, link.gone, sibling.parent_link.fileno(), let_go]
        os.write(writing, json.dumps(reported).encode())
        return 7

    config = Config()
    forker = Forker(WorkerOptions(), config, channel, signals, work_as=work_as, let_go=lambda: let_go.append(1))
    parent_link, worker_end = make_parent_link()
    sibling = forker.adopt(0, 1, parent_link, 0.0)
    child = forker.fork(1, [sibling])
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert json.loads(os.read(reading, 1000)) == [False, False, -1, [1]]
    child.parent_link.listen()
    assert child.parent_link.stop_seconds == 3
    assert channel.receive() is not None
    assert let_go == []
    for end in (child.parent_link, parent_link, worker_end, channel, signals):
        end.close()
    os.close(reading)
    os.close(writing)
