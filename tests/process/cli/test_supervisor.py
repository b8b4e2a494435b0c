"""`--processes`: a supervisor keeps its workers running and loses no job at any crash (rules 10, 11, 12, 31)."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from offsider.embedded.folder import free_port
from tests.process.stored import private, push, waiting
from tests.process.workers import MODULE, ROOT, RUNNING, Worker, keeper_of
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at /proc (Linux)")

# Where a module is imported and forked is noted.
APP = """
    import os
    import time
    from offsider import job
    from tests.process import jobs
    from tests.process.jobs import begin
    from tests.process.ledger import note

    note("imported")

    def configure(config):
        jobs.configure(config)
        config.on("fork", lambda: note("fork"))
        config.on("startup", lambda: note("startup"))

    @job(name="Hoard")
    def hoard(megabytes, seconds):
        jid = begin()
        hoarded = bytearray(os.urandom(1024)) * (megabytes * 1024)
        if jobs.again():
            note("end", jid)
            return
        time.sleep(seconds)
        note("end", jid, len(hoarded))

    @job(name="Orphan")
    def orphan():
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                note("orphan")
            os._exit(0)
        os.waitpid(child, 0)
"""


class Swarm:
    """A supervisor and its workers."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    @property
    def pid(self) -> int:
        return self.worker.pid

    def children(self) -> list[int]:
        """The workers, without the keeper."""
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(pid) for pid in found if int(pid) != self.keeper]

    def threads(self) -> list[int]:
        return [int(path.name) for path in Path(f"/proc/{self.pid}/task").iterdir()]

    @property
    def keeper(self) -> int | None:
        return keeper_of(self.pid)

    def identities(self) -> dict[int, str]:
        return {int(pid): identity for identity, pid in RUNNING.findall(self.worker.output)}

    def until_running(self, *, times: int = 1) -> None:
        self.worker.until_says("now running: ", 30, times=times)


@pytest.fixture
def swarm(workers):
    def start(*options: str, text: str | None = APP, processes: int = 2, wait: bool = True, **given) -> Swarm:
        started = Swarm(workers.start("-p", str(processes), *options, text=text, wait=False, **given))
        if wait:
            started.until_running()
        return started

    return start


def runs(pid: int) -> bool:
    with suppress(ProcessLookupError, FileNotFoundError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


# ----------------------------------------------------------------------------------------- running


def test_every_worker_has_an_identity_of_its_own_and_the_supervisor_none(swarm, stored, ledger):
    jids = [push(stored, "Short", number, 0.3) for number in range(4)]
    supervisor = swarm("-c", "2")
    wait_for(lambda: len(ledger.notes("end")) == 4)
    children = supervisor.children()
    assert len(children) == 2
    assert set(ledger.counts("end")) == set(jids)
    owners = [name.decode() for name in stored.hkeys("offsider:owners")]
    assert sorted(owners) == sorted(supervisor.identities().values())
    wait_for(lambda: stored.scard("processes") == 2)
    assert {int(name.split(b":")[1]) for name in stored.smembers("processes")} == set(children)
    assert supervisor.threads() == [supervisor.pid], "one thread"
    assert {note.pid for note in ledger.notes("imported")} == set(children), "no application in the supervisor"
    assert {note.pid for note in ledger.notes("fork")} == set(children)
    supervisor.worker.stopped()
    assert stored.hkeys("offsider:owners") == []
    wait_for(lambda: not any(runs(pid) for pid in children))


def test_the_application_is_loaded_once_before_the_fork(swarm, stored, ledger):
    supervisor = swarm("--preload")
    assert [note.pid for note in ledger.notes("imported")] == [supervisor.pid]
    children = set(supervisor.children())
    assert {note.pid for note in ledger.notes("fork")} == {note.pid for note in ledger.notes("startup")} == children
    assert supervisor.threads() == [supervisor.pid]
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    supervisor.worker.stopped()


def test_threads_of_a_preloaded_application_refuse_the_fork(swarm, ledger):
    text = """
        import threading
        threading.Thread(target=threading.Event().wait, name="metrics", daemon=True).start()
    """
    supervisor = swarm("--preload", text=text, wait=False)
    assert supervisor.worker.ended() == 1
    assert "the application started threads while it was loaded (metrics)" in supervisor.worker.output


def test_processes_may_be_one_per_core(swarm):
    supervisor = swarm(processes="auto")
    assert len(supervisor.children()) == len(os.sched_getaffinity(0))
    supervisor.worker.stopped()


# -------------------------------------------------------------------------------------- restarting


def test_a_killed_worker_s_jobs_are_back_within_a_second_and_another_one_is_started(swarm, stored, ledger):
    supervisor = swarm("-c", "1")
    jid = push(stored, "Receiving")
    doomed = wait_for(lambda: ledger.notes("start"))[0].pid
    before = time.monotonic()
    os.kill(doomed, signal.SIGKILL)
    wait_for(lambda: ledger.notes("end", jid=jid))
    assert time.monotonic() - before < 3
    printed = supervisor.worker.until_says("starting another one in 0 s")
    assert f"(process {doomed}) was killed by SIGKILL" in printed
    wait_for(lambda: len(supervisor.identities()) == 3)
    dead = supervisor.identities()[doomed]
    assert f"{dead} is dead; requeued its 1 job" in supervisor.worker.output
    assert f"requeued Receiving JID-{jid} to queue default: {dead} is dead" in supervisor.worker.output
    wait_for(lambda: ledger.words("reclaimed"), what="a worker announces what the keeper has requeued")
    assert ledger.words("reclaimed") == [f"{dead} 1"]
    supervisor.worker.stopped()


def test_a_worker_that_is_stopped_from_a_web_page_is_replaced(swarm, stored):
    supervisor = swarm()
    first, second = supervisor.identities().values()
    stored.lpush(f"{first}-signals", "TERM")
    wait_for(lambda: len(supervisor.identities()) == 3, 30)
    assert "ended with code 0; starting another one" in supervisor.worker.output
    stay = {pid for pid, identity in supervisor.identities().items() if identity != first}
    wait_for(lambda: set(supervisor.children()) == stay, 10)
    assert runs(int(second.split(":")[1]))
    supervisor.worker.stopped()


def test_a_dead_keeper_is_restarted_alone_and_regains_its_state(swarm, stored, ledger):
    supervisor = swarm("-c", "1", environ={"OFFSIDER_WORKER_LIVENESS_SECONDS": "9"})
    children = supervisor.children()
    first = supervisor.keeper
    os.kill(first, signal.SIGKILL)
    second = wait_for(lambda: supervisor.keeper not in {None, first} and supervisor.keeper)
    push(stored, "Receiving")
    doomed = wait_for(lambda: ledger.notes("start"))[0].pid
    until = time.monotonic() + 2.0  # more than a ninth of a lifetime: every worker has reported
    wait_for(lambda: time.monotonic() > until)
    os.kill(doomed, signal.SIGKILL)
    wait_for(lambda: ledger.notes("end"), 5)
    assert ledger.words("reclaimed") == []
    assert supervisor.keeper == second
    assert set(children) - {doomed} <= set(supervisor.children())
    assert "the keeper is gone" not in supervisor.worker.output
    supervisor.worker.stopped()


def test_an_application_that_cannot_be_loaded_ends_the_supervisor(swarm):
    supervisor = swarm(text="1 / 0", wait=False)
    assert supervisor.worker.ended() == 1
    assert "no worker started, so the supervisor exits" in supervisor.worker.output
    assert "division by zero" in supervisor.worker.output


def test_an_application_that_cannot_be_preloaded_ends_the_supervisor(swarm):
    supervisor = swarm("--preload", text="1 / 0", wait=False)
    assert supervisor.worker.ended() == 1
    assert supervisor.worker.output.count("division by zero") == 1


def test_orphans_are_reaped_as_those_of_pid_1_are(swarm, stored, ledger):
    become_reaper = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); "
        "os.execv(sys.executable, [sys.executable, '-m', 'offsider', 'worker', *sys.argv[1:]])"
    )
    supervisor = swarm(processes=1, command=(sys.executable, "-c", become_reaper))
    push(stored, "Orphan")
    orphan = wait_for(lambda: ledger.notes("orphan"))[0].pid
    wait_for(lambda: not Path(f"/proc/{orphan}").exists())
    supervisor.worker.stopped()


# ---------------------------------------------------------------------------------------- stopping


def test_a_stop_requeues_unfinished_jobs_in_time(swarm, stored, ledger):
    supervisor = swarm("-c", "1", "-t", "1", measured=False)  # coverage saves its data at their end, for too long
    for _ in range(2):
        push(stored, "Receiving")
    wait_for(lambda: len(ledger.notes("start")) == 2)
    before = time.monotonic()
    supervisor.worker.stopped()
    assert time.monotonic() - before < 5
    assert len(waiting(stored)) == 2
    assert private(stored) == []
    assert "is dead" not in supervisor.worker.output


def test_a_stop_before_the_workers_are_up_works(swarm, ledger):
    supervisor = swarm(text=APP + "\n    time.sleep(30)\n", wait=False)
    wait_for(lambda: len(ledger.notes("imported")) == 2)
    supervisor.worker.stopped(seconds=5)


def test_a_stop_while_the_application_is_preloaded_works(swarm, ledger):
    supervisor = swarm("--preload", text=APP + "\n    time.sleep(30)\n", wait=False)
    wait_for(lambda: ledger.notes("imported"))
    supervisor.worker.stopped(seconds=5)


def test_a_worker_that_hangs_past_the_deadline_is_killed_and_its_job_requeued(swarm, stored, ledger):
    supervisor = swarm("-c", "1", "-t", "0.5")
    jid = push(stored, "Hog", 30)
    wait_for(lambda: ledger.notes("start"))
    before = time.monotonic()
    supervisor.worker.send("TERM")
    assert supervisor.worker.ended() == 1
    assert time.monotonic() - before < 0.5 + 6  # the promise is 4; the machine may be busy
    assert "did not exit in time, killing it" in supervisor.worker.output
    assert [job["jid"] for job in waiting(stored)] == [jid]
    assert private(stored) == []


def test_the_workers_end_with_their_supervisor(swarm, stored, ledger):
    supervisor = swarm("-c", "1", "-t", "0.5")
    children, keeper = supervisor.children(), supervisor.keeper
    push(stored, "Receiving")
    wait_for(lambda: ledger.notes("start"))
    supervisor.worker.kill_alone()
    wait_for(lambda: not any(runs(pid) for pid in (*children, keeper)), 10)
    assert len(waiting(stored)) == 1
    assert stored.hkeys("offsider:owners") == []


def test_ctrl_c_reaches_all_processes_and_ends_cleanly(swarm):
    supervisor = swarm()
    os.killpg(supervisor.pid, signal.SIGINT)
    assert supervisor.worker.ended() == 0
    assert supervisor.worker.output.count("stopping: running jobs have") == 2


def test_a_second_interrupt_of_the_supervisor_alone_stops_its_workers_at_once(swarm, stored, ledger):
    supervisor = swarm("-c", "1", "-t", "60")
    push(stored, "Long", 30)
    wait_for(lambda: ledger.notes("start"))
    supervisor.worker.send("INT")
    supervisor.worker.until_says("running now: Long")
    supervisor.worker.send("INT")
    assert supervisor.worker.ended(10) == 0, supervisor.worker.output
    assert stored.llen("queue:default") == 1


def test_quiet_and_dump_are_for_all_workers(swarm, stored, ledger):
    supervisor = swarm("-c", "1")
    supervisor.worker.send("TTIN")
    supervisor.worker.until_says("MainThread", times=2)
    assert supervisor.worker.output.count(" runs, ") == 2
    supervisor.worker.send("TSTP")
    supervisor.worker.until_says("quiet: this worker claims no new jobs", times=2)
    wait_for(lambda: stored.info("clients")["blocked_clients"] == 0)  # the pops that waited are called back
    push(stored, "Short")
    doomed = supervisor.children()[0]
    os.kill(doomed, signal.SIGKILL)
    supervisor.worker.until_says("was killed by SIGKILL")
    assert supervisor.worker.stopped().count("is process") == 2, "none is started any more"
    assert len(waiting(stored)) == 1
    assert ledger.notes("start") == []


# -------------------------------------------------------------------------------------------- health


def asked(port: int, path: str) -> tuple[int, str]:
    """The status and the text of a response; 0 without a connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def test_one_address_reports_all_workers_through_restarts(swarm):
    port = free_port()
    supervisor = swarm("--health", str(port))
    wait_for(lambda: asked(port, "/ready") == (200, "ok\n"))
    os.kill(supervisor.keeper, signal.SIGKILL)
    supervisor.worker.until_says("the keeper was killed by SIGKILL")
    wait_for(lambda: asked(port, "/ready") == (200, "ok\n"), 30)
    supervisor.worker.send("USR2")
    supervisor.until_running(times=2)
    wait_for(lambda: asked(port, "/ready") == (200, "ok\n"), 30)
    assert "cannot listen" not in supervisor.worker.output
    supervisor.worker.send("TSTP")
    wait_for(lambda: asked(port, "/ready")[0] == 503)
    assert "is quiet" in asked(port, "/ready")[1]
    assert asked(port, "/live") == (200, "ok\n")
    supervisor.worker.stopped()


def test_the_health_endpoint_of_a_supervisor_needs_the_keeper(swarm):
    supervisor = swarm("--health", str(free_port()), "--no-keeper", wait=False)
    assert supervisor.worker.ended() == 1
    assert "requires the keeper: remove --no-keeper" in supervisor.worker.output


# ------------------------------------------------------------------------------------ rolling restart

VERSIONED = """
    from offsider import job
    from tests.process import jobs
    from tests.process.jobs import configure
    from tests.process.ledger import note

    @job(name="Version")
    def version():
        note("version", word={version})
"""


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["plain", "preload"])
def test_usr2_brings_new_code_while_a_long_job_ends_in_the_old_worker(swarm, workers, stored, ledger, options):
    """`timeout` is far shorter than the job: a replaced worker has no deadline."""
    supervisor = swarm("-c", "1", "-t", "0.5", *options, text=VERSIONED.format(version=1))
    old = supervisor.children()
    long = push(stored, "Long", 15)
    holder = wait_for(lambda: ledger.notes("start"))[0].pid
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1"])

    workers.write(VERSIONED.format(version=2222))
    supervisor.worker.send("USR2")
    supervisor.until_running(times=2)
    wait_for(lambda: len(supervisor.identities()) == 4)
    supervisor.worker.until_says("quiet: this worker claims no new jobs", times=2)
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1", "2222"])
    assert ledger.notes("end", jid=long) == []
    assert runs(holder)
    wait_for(lambda: ledger.notes("end", jid=long, pid=holder), 30)
    wait_for(lambda: sorted(supervisor.children()) == sorted(set(supervisor.identities()) - set(old)), 10)
    assert len(ledger.notes("start")) == 1
    assert supervisor.worker.runs, "under the same number"
    supervisor.worker.stopped()
    assert waiting(stored) == private(stored) == []


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["plain", "preload"])
def test_workers_keep_running_if_the_new_code_cannot_be_loaded(swarm, workers, stored, ledger, options):
    supervisor = swarm("-c", "1", *options, text=VERSIONED.format(version=1))
    old = set(supervisor.children())
    workers.write("1 / 0")
    supervisor.worker.send("USR2")
    supervisor.worker.until_says("division by zero")
    assert old <= set(supervisor.children())
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1"])

    workers.write(VERSIONED.format(version=22222))
    supervisor.worker.send("USR2")
    wait_for(lambda: not old & set(supervisor.children()), 20)
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1", "22222"])
    supervisor.worker.stopped()


def test_a_configuration_that_cannot_be_read_is_noticed_before_a_restart(swarm, workers):
    supervisor = swarm()
    (workers.folder / "offsider.toml").write_text("[worker]\nconcurrency = 0\n")
    supervisor.worker.send("USR2")
    supervisor.worker.until_says("restart failed, the workers continue")
    supervisor.worker.stopped()


# As a unit or a deploy script starts it.
IN_CURRENT = ("sh", "-c", 'cd "$CURRENT" && exec "$@"', "sh", *MODULE)


@pytest.fixture
def releases(workers):
    """Points the link ``current`` at a release and returns its folder."""
    current = workers.folder / "current"

    def point(number: int) -> Path:
        folder = workers.folder / "releases" / str(number)
        workers.write(VERSIONED.format(version=number), f"releases/{number}/app.py")
        current.unlink(missing_ok=True)
        current.symlink_to(folder)
        return folder

    return point


def test_usr2_follows_the_link_of_a_deploy_and_survives_a_removed_folder(swarm, workers, stored, ledger, releases):
    first = releases(1)
    current = workers.folder / "current"
    environ = {"CURRENT": str(current), "PWD": None}
    supervisor = swarm("-c", "1", "-r", "app", text=None, app=None, command=IN_CURRENT, environ=environ)
    old = set(supervisor.children())

    # No release at all: the old workers continue, also for jobs that come now.
    current.unlink()
    shutil.rmtree(first)
    supervisor.worker.send("USR2")
    said = supervisor.worker.until_says("restart failed, the workers continue: ")
    assert len([line for line in said.splitlines() if "restart failed" in line and str(current) in line]) == 1
    assert "Traceback" not in said
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1"])
    assert set(supervisor.children()) == old

    second = releases(2)
    supervisor.worker.send("USR2")
    wait_for(lambda: not old & set(supervisor.children()), 30)
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1", "2"])

    # A worker that dies when its folder is gone is restarted in the release of today.
    releases(3)
    shutil.rmtree(second)
    for child in supervisor.children():
        os.kill(child, signal.SIGKILL)
    wait_for(lambda: len({*supervisor.identities()} & {*supervisor.children()}) == 2, 30)
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1", "2", "3"])
    supervisor.worker.stopped()


BROKEN = {
    "syntax": ("app.py", "def :\n", "SyntaxError"),
    "import": ("app.py", "import no_such_module\n", "no_such_module"),
    "options": ("app.py", "from offsider import job\n@job(queue='')\ndef work(): ...\n", "queue"),
    "settings": ("offsider.toml", "[worker\n", "offsider.toml"),
    "offsider": ("click.py", "raise ImportError('half installed')\n", "half installed"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_usr2_with_a_broken_release_is_one_line(swarm, workers, stored, ledger, fault):
    file, text, reason = BROKEN[fault]
    supervisor = swarm("-c", "1", text=VERSIONED.format(version=1), processes=1)
    old = supervisor.children()
    workers.write(text, file)
    supervisor.worker.send("USR2")
    said = supervisor.worker.until_says("restart failed, the workers continue: ")
    (line,) = [line for line in said.splitlines() if "restart failed" in line]
    assert reason in line
    assert "Traceback" not in said
    push(stored, "Version")
    wait_for(lambda: ledger.words("version") == ["1"])
    assert supervisor.children() == old
    supervisor.worker.stopped()


def test_a_stop_ends_a_restart_whose_new_code_hangs(swarm, workers):
    supervisor = swarm(text=VERSIONED.format(version=1), processes=1)
    workers.write("import time\nopen('hangs', 'w').close()\ntime.sleep(600)\n")
    supervisor.worker.send("USR2")
    wait_for((workers.folder / "hangs").exists)
    workers.write(VERSIONED.format(version=2))
    supervisor.worker.send("USR2")  # in its place
    supervisor.until_running(times=2)
    workers.write("import time\nopen('hangs again', 'w').close()\ntime.sleep(600)\n")
    supervisor.worker.send("USR2")
    wait_for((workers.folder / "hangs again").exists)
    hanging = set(supervisor.children()) - {*supervisor.identities()}
    supervisor.worker.stopped()
    wait_for(lambda: not any(runs(pid) for pid in hanging))


def test_usr2_without_a_supervisor_logs_the_requirement(workers):
    worker = workers.start()
    worker.send("USR2")
    worker.until_says("needs a supervisor (--processes)")
    worker.stopped()


# -------------------------------------------------------------------------------------------- memory


@pytest.fixture
def hungry(tmp_path):
    """The environment of processes that may use 150 MB, without a grace period."""
    (tmp_path / "site").mkdir()
    text = "import offsider.worker.memory_limits as limits\nlimits.GRACE_SECONDS = 0\n"
    (tmp_path / "site" / "sitecustomize.py").write_text(text)
    path = os.pathsep.join([str(tmp_path / "site"), str(ROOT), str(ROOT / "src")])
    return {"OFFSIDER_WORKER_MEMORY_MAX_MB": "150", "PYTHONPATH": path}


def test_a_worker_over_its_memory_limit_is_replaced_and_logs_its_jobs(swarm, hungry, stored, ledger):
    supervisor = swarm("-c", "1", "-t", "0.5", processes=1, environ=hungry)
    jid = push(stored, "Hoard", 200, 60)
    large = wait_for(lambda: ledger.notes("start"))[0].pid
    wait_for(lambda: ledger.notes("end", jid=jid), 20)
    printed = supervisor.worker.until_says(f"(process {large}) ended with code 0")
    assert "more than memory_max_mb = 150" in printed
    assert f"running now: Hoard jid={jid}" in printed
    started = [line for line in printed.splitlines() if "running <Capsule" in line or "stopping: running jobs" in line]
    assert "stopping" not in started[1], "the successor runs first"
    supervisor.worker.stopped()


def test_a_worker_without_a_supervisor_ends_with_a_code_that_asks_for_a_restart(workers, hungry, stored, ledger):
    worker = workers.start("-c", "1", "-t", "0.5", text=APP, environ=hungry)
    jid = push(stored, "Hoard", 200, 60)
    wait_for(lambda: ledger.notes("start"))
    assert worker.ended() == 75
    assert "stopping this process: it has used" in worker.output
    assert [json.loads(raw)["jid"] for raw in stored.lrange("queue:default", 0, -1)] == [jid]
