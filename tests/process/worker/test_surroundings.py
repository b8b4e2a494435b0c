"""systemd, the process title, PID 1, `--reload`, and a worker inside another program."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.process.stored import private, push, waiting
from tests.process.workers import MODULE
from tests.waiting import wait_for

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


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


def test_a_watchdog_below_a_second_is_refused_and_the_worker_runs(workers, systemd):
    environ = {"NOTIFY_SOCKET": systemd.socket.getsockname(), "WATCHDOG_USEC": "500000"}
    worker = workers.start(environ=environ)
    worker.until_says("watchdog of 0.5 s is too short")
    worker.stopped()
    assert systemd.hear() == ["READY=1", "STOPPING=1"]


def test_a_worker_that_cannot_start_is_never_ready(workers, systemd):
    worker = workers.start(wait=False, text="1 / 0\n", environ={"NOTIFY_SOCKET": systemd.socket.getsockname()})
    assert worker.ended() == 1
    assert systemd.hear() == []


def test_a_missing_socket_only_logs_a_warning(workers):
    worker = workers.start(environ={"NOTIFY_SOCKET": "/nowhere/notify"})
    worker.until_says("cannot notify systemd of READY=1")
    worker.stopped()


# --------------------------------------------------------------------------------------- title


def title_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


@on_linux
def test_the_process_title_shows_busy_threads(workers, stored, ledger):
    worker = workers.start("-c", "3", "-g", "shop")
    wait_for(lambda: title_of(worker.pid).startswith("offsider 0."))
    assert title_of(worker.pid).endswith("shop [0 of 3 busy]")
    push(stored, "Long", 60)
    wait_for(lambda: title_of(worker.pid).endswith("shop [1 of 3 busy]"))
    worker.send("TSTP")
    wait_for(lambda: title_of(worker.pid).endswith("shop [1 of 3 busy] stopping"))


# --------------------------------------------------------------------------------------- PID 1


def may_unshare() -> bool:
    program = shutil.which("unshare")
    if program is None:
        return False
    tried = subprocess.run([program, "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.parametrize("state", ["booting", "running"])
def test_as_pid_1_of_a_container_it_obeys_term(workers, stored, ledger, state):
    """The kernel drops signals for which PID 1 has no handler."""
    if not may_unshare():
        pytest.skip("needs the right to make a PID namespace: run as root")
    app = """
        import os, time
        from tests.process.jobs import *
        print("loading", flush=True)
        if os.environ["STATE"] == "booting":
            time.sleep(60)
    """
    command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *MODULE)
    worker = workers.start(text=app, command=command, environ={"STATE": state}, wait=False)
    worker.until_says("loading")
    if state == "running":
        worker.until_running()
        push(stored, "Short", 1, 1.0)
        wait_for(lambda: ledger.notes("start"))
    (init,) = wait_for(lambda: Path(f"/proc/{worker.parent}/task/{worker.parent}/children").read_text().split())
    os.kill(int(init), signal.SIGTERM)
    assert worker.ended() == 0
    assert len(ledger.notes("end")) == (state == "running")
    assert waiting(stored) == private(stored) == []


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


@pytest.mark.parametrize("options", [(), ("--reload",)], ids=["default", "reload"])
def test_as_pid_1_of_a_container_it_reaps_what_jobs_leave_behind(workers, stored, ledger, options):
    if not may_unshare():
        pytest.skip("needs the right to make a PID namespace: run as root")
    command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *MODULE)
    worker = workers.start(*options, text=ORPHAN, command=command)
    push(stored, "Orphan")
    orphan = wait_for(lambda: ledger.notes("orphan"))[0].pid
    (init,) = Path(f"/proc/{worker.parent}/task/{worker.parent}/children").read_text().split()
    wait_for(lambda: not Path(f"/proc/{init}/root/proc/{orphan}").exists())
    os.kill(int(init), signal.SIGTERM)
    assert worker.ended() == 0


# -------------------------------------------------------------------- inherited, and changed by jobs


def test_bytes_of_the_environment_and_the_folder_that_are_not_utf8(workers, stored, ledger):
    folder = Path(os.fsdecode(os.fsencode(workers.folder) + b"/caf\xe9"))
    folder.mkdir()
    worker = workers.start(folder=folder, environ={os.fsdecode(b"\xff"): os.fsdecode(b"\xfe")})
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    wait_for(lambda: b'"tag":"caf?"' in (stored.hget(worker.identity, "info") or b"").replace(b": ", b":"))
    worker.stopped()
    worker = workers.start(wait=False, environ={"OFFSIDER_WORKER_TAG": os.fsdecode(b"caf\xe9")})
    assert worker.ended() == 1
    assert worker.output.startswith("offsider: OFFSIDER_WORKER_TAG: ")
    assert "it is not valid UTF-8" in worker.output
    assert len(worker.output.splitlines()) == 1


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


@pytest.mark.parametrize("options", [(), ("-p", "1")], ids=["alone", "parent"])
def test_a_job_may_change_its_surroundings(workers, stored, ledger, options):
    worker = workers.start("-c", "1", "-t", "5", *options, text=CHANGES, measured=False)
    push(stored, "Change", retry=False)
    worker.until_says("ignoring the signal ALRM")
    assert ledger.notes("changed")
    push(stored, "Failing", 0.0)
    push(stored, "Async", 0.0)
    wait_for(lambda: ledger.notes("end"))
    wait_for(lambda: stored.zcard("retry"))
    worker.until_says("Traceback")  # of the failed job; its line is written by another thread
    worker.stopped()
    assert "Traceback" not in worker.output.partition("stopping")[2]


# ------------------------------------------------------------------------------------ --reload


RELOADED = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="Versioned")
    def versioned():
        note("ran", word="{word}")
"""


SLOW = """
    import time
    from offsider import current_job, job
    from tests.process.ledger import note

    @job(name="Slow")
    def slow():
        note("start", current_job().jid)
        time.sleep(1)
        note("end", current_job().jid)
"""


def test_reload_restarts_the_worker_when_a_source_file_changes(workers, stored, ledger):
    parent = workers.start("--reload", text=RELOADED.format(word="first"))
    push(stored, "Versioned")
    wait_for(lambda: ledger.words("ran") == ["first"])

    workers.write(RELOADED.format(word="second"))
    parent.until_says("running <Capsule", 30, times=2)
    assert "reloading: app.py" in parent.output
    push(stored, "Versioned")
    wait_for(lambda: ledger.words("ran") == ["first", "second"])

    workers.write("def broken(:\n")
    parent.until_says("SyntaxError", 30)
    workers.write(RELOADED.format(word="mended"))
    parent.until_says("running <Capsule", 30, times=3)
    push(stored, "Versioned")
    wait_for(lambda: ledger.words("ran") == ["first", "second", "mended"])

    parent.stopped()
    assert stored.hlen("offsider:owners") == 0
    assert len({item.pid for item in ledger.notes("ran")} | {parent.parent}) == 4


def test_one_ctrl_c_under_reload_waits_for_the_jobs(workers, stored, ledger):
    """A terminal sends INT to the whole group: to the reloader, and to its worker."""
    parent = workers.start("--reload", text=SLOW)
    push(stored, "Slow")
    wait_for(lambda: ledger.notes("start"))
    os.killpg(parent.process.pid, signal.SIGINT)
    assert parent.ended(20) == 0
    assert "stopping at once" not in parent.output
    assert len(ledger.notes("end")) == 1


# ------------------------------------------------------------------------------------ embedded

PROGRAM = """
    import signal, sys, threading
    from offsider.worker.embed import EmbeddedWorker
    from offsider import job
    from offsider.config.config import Config
    from tests.process.jobs import short
    from tests.process.ledger import note

    config = Config.load()
    config.worker.concurrency = 2
    config.on("beat", lambda: note("beat"))
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    with EmbeddedWorker(config):
        note("up", word=threading.active_count())
        while not done.wait(0.1):
            pass
    note("down", word=signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
"""


def test_a_worker_inside_another_program_leaves_signals_to_it(workers, stored, ledger):
    workers.write(PROGRAM, "program.py")
    program = workers.start(app=None, command=(sys.executable, "program.py"), wait=False)
    wait_for(lambda: ledger.notes("up"))
    jid = push(stored, "Short", 1)
    wait_for(lambda: ledger.notes("end", jid=jid))

    (identity,) = wait_for(lambda: stored.smembers("processes"))
    stored.lpush(identity + b"-signals", "TERM")
    beats = len(ledger.notes("beat"))
    wait_for(lambda: len(ledger.notes("beat")) > beats, 30)
    jid = push(stored, "Short", 2)
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert "program.py" in title_of(program.parent)

    program.stopped()
    assert ledger.words("down") == ["True"]
    assert stored.hlen("offsider:owners") == stored.scard("processes") == 0
