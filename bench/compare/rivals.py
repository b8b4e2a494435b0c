"""All contestants, each with its newest release that works; offsider and Sidekiq are first.

Each is installed in its own virtual environment below .venv-rivals/, because their requirements conflict.

Sidekiq is the open source edition: Debian's, or the one that OFFSIDER_TEST_SIDEKIQ names. The variable is the path of
the program `sidekiq`, with `ruby` beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

APPS = Path(__file__).parent / "apps"
ROOT = Path(__file__).resolve().parents[2]
SIDEKIQ = os.environ.get("OFFSIDER_TEST_SIDEKIQ", "sidekiq")
RUBY = str(Path(SIDEKIQ).with_name("ruby"))
OFFSIDER_WORKER = "{programs}/offsider worker -r offsider_app -c {concurrency} -e production"
CELERY_OPTIONS = "--without-gossip --without-mingle --without-heartbeat -l WARNING"
HIREDIS = "hiredis==3.5.0"
REDIS = ("redis==8.1.0", HIREDIS)


@dataclass(frozen=True)
class Contestant:
    """One job system in one configuration.

    Attributes:
        name: name of its row.
        app: the module in apps/ that declares and pushes the job.
        rate: approximate no-op jobs/s of one process, for the size of the first run.
        worker: the command of one worker process, with the fields ``{programs}`` (the folder of its programs),
            ``{concurrency}`` and ``{url}``.
        settings: description of its settings.
        safety: description of what happens to its jobs when a process dies.
        requirements: pinned requirements; empty for a program that must be installed on the machine.
        environ: environment variables of worker and producer.
        has_bulk: its app has ``push_bulk``.
        has_async_push: its app has ``apush`` beside ``push``, for programs with an event loop.
        runs_one: a process runs one job at a time, so that concurrency is a number of processes.
        gap_ms: pause between two pushes in latency tests.
        swarm: the command of several worker processes under one parent process, also with ``{processes}``; empty: one
            command per process.
        producer: the command of the producer; empty: apps/drive.py.
        default_log: also measure it with its job log at the default level.
        is_python: whether it is written in Python.
    """

    name: str
    app: str
    rate: int
    worker: str
    settings: str
    safety: str
    requirements: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    has_bulk: bool = False
    has_async_push: bool = False
    runs_one: bool = False
    gap_ms: float = 10
    swarm: str = ""
    producer: str = ""
    default_log: bool = False
    is_python: bool = True

    @property
    def is_available(self) -> bool:
        """Whether it can run: a system without requirements must be installed on the machine."""
        return self.is_python or shutil.which(self.worker.split()[0]) is not None

    def install(self) -> Path:
        """Return the folder of its programs; install them first unless these versions are installed."""
        if not self.requirements:
            return Path(sys.executable).parent
        folder = ROOT / ".venv-rivals" / self.app.removesuffix("_app")  # configurations of one system share it
        mark = folder / "installed"
        wanted = "\n".join((sys.version, *self.requirements))
        if not mark.is_file() or mark.read_text() != wanted:
            print(f"installing {' '.join(self.requirements)} into {folder.relative_to(ROOT)}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install")
            subprocess.run([*pip, *self.requirements], check=True)
            mark.write_text(wanted)
        return folder / "bin"

    def drive(self, programs: Path) -> list[str | Path]:
        """Return the command of its producer, without the arguments of drive.py."""
        if self.producer:
            return [*self.producer.split()]
        return [programs / "python", APPS / "drive.py", self.app]

    def surroundings(self, url: str, slots: Path) -> dict[str, str]:
        """Return the environment variables of worker and producer."""
        # Bytecode is kept, as `pip install` keeps that of the rivals: a checkout without it compiles at each boot.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {
            **inherited,
            **self.environ,
            "REDIS_URL": url,
            "BENCH_SLOTS": str(slots),
            "PYTHONPATH": f"{APPS}{os.pathsep}{ROOT}",
        }


OFFSIDER = Contestant(
    name="offsider",
    app="offsider_app",
    rate=80_000,
    worker=OFFSIDER_WORKER,
    swarm=f"{OFFSIDER_WORKER} --processes {{processes}}",
    settings="threads, the defaults; two processes with --processes 2",
    safety="acknowledged after the job; another process takes over from a dead one",
    has_bulk=True,
    has_async_push=True,
    default_log=True,
)
CONTESTANTS = (
    OFFSIDER,
    Contestant(
        name="Sidekiq (Ruby)",
        app="sidekiq_app",
        rate=10_000,
        worker=f"{SIDEKIQ} -r {APPS}/sidekiq_app.rb -c {{concurrency}} -e production",
        producer=f"{RUBY} {APPS}/sidekiq_drive.rb",
        settings="threads, the defaults",
        safety="a job leaves Redis before it runs",
        has_bulk=True,
        default_log=True,
        is_python=False,
    ),
    *(
        Contestant(
            name=f"Celery ({pool})",
            app="celery_app",
            rate=1_000,
            worker=f"{{programs}}/celery -A celery_app worker -P {pool} -c {{concurrency}} {CELERY_OPTIONS}",
            settings="prefetch x 64, no results, without gossip, mingle and heartbeat",
            safety="acknowledged before the job runs (the default)",
            # Its transport imports packaging and does not declare it.
            requirements=("celery==5.7.0", *REDIS, "packaging==26.3"),
        )
        for pool in ("threads", "prefork")
    ),
    Contestant(
        name="Dramatiq",
        app="dramatiq_app",
        rate=4_000,
        worker="{programs}/dramatiq dramatiq_app -p 1 -t {concurrency} --skip-logging",
        environ={"dramatiq_queue_prefetch": "200"},
        settings="threads, prefetch 200",
        safety="acknowledged after the job; requeued after 60 s without heartbeat, when there is traffic",
        requirements=("dramatiq==2.2.1", *REDIS),
    ),
    Contestant(
        name="Huey",
        app="huey_app",
        rate=4_000,
        worker="{programs}/huey_consumer huey_app.huey -k thread -w {concurrency} -q",
        settings="threads, no results",
        safety="a job leaves Redis before it runs",
        requirements=("huey==3.5.4", *REDIS),
    ),
    Contestant(
        # Faster than its list broker, which also dies after five idle seconds with redis-py 8.
        name="Taskiq (stream)",
        app="taskiq_app",
        rate=3_300,
        worker="{programs}/taskiq worker taskiq_app:broker -w 1 --max-async-tasks {concurrency} --log-level WARNING",
        settings="asyncio with uvloop, no results",
        safety="acknowledged after the job; taken over after 10 min, when a new job arrives",
        requirements=("taskiq==0.13.0", "taskiq-redis==1.2.4", *REDIS, "uvloop==0.23.0"),
    ),
    Contestant(
        name="SAQ",
        app="saq_app",
        rate=2_100,
        worker="{programs}/saq saq_app.settings --quiet",
        settings="asyncio, no results",
        safety="running jobs of a dead worker are aborted by a sweep after 60 s (no retries by default)",
        # It imports typing_extensions and does not declare it.
        requirements=("saq==0.26.4", "redis==7.4.1", HIREDIS, "typing_extensions==4.16.0"),
    ),
    Contestant(
        name="arq",
        app="arq_app",
        rate=1_800,
        worker="{programs}/python -m arq_app",
        # Its default poll of 0.5 s starts no more than the concurrency in each half second.
        settings="asyncio, poll each 5 ms, 1,000 ids a read, no results",
        safety="leaves Redis after the job; runs again 310 s after its process died",
        requirements=("arq==0.28.0", "redis==5.3.1", HIREDIS),
    ),
    Contestant(
        # The worker that does not fork for each job, which is its fastest.
        name="RQ (SimpleWorker)",
        app="rq_app",
        rate=400,
        worker="{programs}/rq worker-pool bench -n {concurrency} -q -w rq.worker.SimpleWorker -u {url}",
        settings="one job at a time in a process, as many processes as the concurrency; results deleted at once",
        safety="a job whose worker died is marked as failed by a later one",
        requirements=("rq==3.0.0", *REDIS),
        has_bulk=True,
        runs_one=True,
        gap_ms=20,
    ),
)
