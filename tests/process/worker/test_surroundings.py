"""systemd, the process title, PID 1, Ctrl-C, and a worker inside another program."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from tests.process.stored import push
from tests.process.workers import MODULE, children_of
from tests.waiting import wait_for

# ------------------------------------------------------------------------------------- systemd


class Systemd:
    """The socket that systemd would listen on."""

    def __init__(self, path: str) -> None:
        self.heard: list[str] = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.setblocking(False)

    def hear(self) -> list[str]:
        try:
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return self.heard


@pytest.fixture
def systemd():
    with tempfile.TemporaryDirectory(prefix="offsider-") as folder:
        listening = Systemd(f"{folder}/notify")
        yield listening
        listening.socket.close()


def test_systemd_gets_ready_alive_and_stopping(workers, systemd):
    environ = {"NOTIFY_SOCKET": systemd.socket.getsockname(), "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": None}
    worker = workers.start(environ=environ)
    wait_for(lambda: systemd.hear().count("WATCHDOG=1") >= 4)
    assert systemd.heard[0] == "READY=1"
    worker.stopped()
    assert [word for word in systemd.hear() if word != "WATCHDOG=1"] == ["READY=1", "STOPPING=1"]


# --------------------------------------------------------------------------------------- PID 1


def test_as_pid_1_of_a_container_it_obeys_term_while_it_boots(workers, as_pid_1):
    """The kernel drops signals for which PID 1 has no handler."""
    app = """
        import time
        print("loading", flush=True)
        time.sleep(60)
    """
    worker = workers.start(text=app, command=(*as_pid_1, *MODULE), wait=False)
    worker.until_says("loading")
    (init,) = children_of(worker.parent)
    os.kill(init, signal.SIGTERM)
    assert worker.ended() == 0


ORPHAN = """
    import os
    from offsider import job
    from tests.process.ledger import note

    @job(name="Orphan")
    def orphan():
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                note("orphan")
            os._exit(0)
        os.waitpid(child, 0)
"""


def test_as_pid_1_of_a_container_it_reaps_what_jobs_leave_behind(workers, stored, ledger, as_pid_1):
    worker = workers.start(text=ORPHAN, command=(*as_pid_1, *MODULE))
    push(stored, "Orphan")
    orphan = wait_for(lambda: ledger.notes("orphan"))[0].pid
    (init,) = children_of(worker.parent)
    wait_for(lambda: not Path(f"/proc/{init}/root/proc/{orphan}").exists())
    os.kill(init, signal.SIGTERM)
    assert worker.ended() == 0


# -------------------------------------------------------------------- inherited, and changed by jobs


CHANGES = """
    import asyncio, decimal, gc, locale, os, random, signal, socket, sys, tempfile, threading, time, warnings
    from contextlib import suppress
    from offsider import job
    from tests.process.jobs import *
    from tests.process.ledger import note

    class Policy(asyncio.DefaultEventLoopPolicy):
        def get_event_loop(self):
            raise RuntimeError("no loop")

    asyncio.set_event_loop_policy(Policy())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)

    def fails(*details):
        raise RuntimeError("in a hook")

    @job(name="Change")
    def change():
        os.chdir(tempfile.mkdtemp())
        os.rmdir(os.getcwd())
        os.umask(0o777)
        ledger = os.environ["TEST_LEDGER"]
        os.environ.clear()
        os.environ.update(TEST_LEDGER=ledger, TZ="Asia/Kolkata")
        time.tzset()
        for name in ("tr_TR.UTF-8", "de_DE.UTF-8", "C"):
            with suppress(locale.Error):
                locale.setlocale(locale.LC_ALL, name)
        socket.setdefaulttimeout(0.001)
        sys.setrecursionlimit(200)
        threading.excepthook = sys.excepthook = sys.unraisablehook = fails
        warnings.simplefilter("error")
        gc.disable()
        random.seed(1)
        decimal.setcontext(decimal.Context(prec=1, traps=[decimal.Inexact]))
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.alarm(1)
        sys.path.clear()
        sys.setswitchinterval(1)
        sys.stdout = sys.stderr = None
        note("changed")
"""


def test_a_job_may_change_its_surroundings(workers, stored, ledger):
    worker = workers.start("-c", "1", "-t", "5", "-p", "1", text=CHANGES, measured=False)
    push(stored, "Change", retry=False)
    worker.until_says("ignoring the signal ALRM")
    wait_for(lambda: ledger.notes("changed"))
    push(stored, "Failing", 0.0)
    push(stored, "Async", 0.0)
    wait_for(lambda: ledger.notes("end"))
    wait_for(lambda: stored.zcard("retry"))
    worker.until_says("Traceback")  # of the failed job; its line is written by another thread
    worker.stopped()
    assert "Traceback" not in worker.output.partition("stopping")[2]


# -------------------------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("stopping", [False, True], ids=["first", "after TERM"])
def test_one_ctrl_c_waits_for_the_jobs(workers, stored, ledger, stopping):
    """A terminal sends INT to the whole group: to the parent, and to its worker, which gets TERM from the parent."""
    parent = workers.start()
    push(stored, "Held")
    wait_for(lambda: ledger.notes("start"))
    if stopping:
        parent.send("TERM")
        parent.until_says("stopping: running jobs")
    os.killpg(parent.process.pid, signal.SIGINT)
    parent.until_says("stopping: running jobs")
    (workers.folder / "go").touch()
    assert parent.ended() == 0
    assert "stopping at once" not in parent.output
    assert len(ledger.notes("end")) == 1
