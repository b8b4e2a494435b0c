"""Real Sidekiq next to our real worker: each module has its own server, with Debian's redis-server.

Each module runs with Debian's Sidekiq, and with the one that OFFSIDER_TEST_SIDEKIQ names.

Fixtures (all for one module)
    sidekiq_at  the installed Sidekiq: its version, wire version and programs
    raw_redis   a plain redis-py client of that server (replies are bytes)
    environ     variables for processes of both languages: REDIS_URL, the wire version
    config      ours, with the wire version of that Sidekiq
    client      a Client of that config
    ruby        a console in which Sidekiq's own API is called: ruby("Sidekiq::Stats.new.processed")
    processes   starts `sidekiq`, its pages and `offsider worker`, ends all of them: processes.sidekiq("-q", "ruby")
    seen        seen(jid): the runs of a job, each [language, arguments, retry_count]
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from offsider import Client, Config
from offsider.embedded import EmbeddedServer
from offsider.embedded.folder import free_port
from tests.interop.ruby_side import ANOTHER, RubyConsole, Sidekiq, sidekiqs, start_pages, start_sidekiq
from tests.process.workers import children_of

HERE = Path(__file__).parent
#: Debian's Sidekiq has no iterations and no profiles, and in CI a test that is skipped fails.
collect_ignore = [] if os.environ.get(ANOTHER) else ["test_iteration.py", "test_profiles.py"]


class Processes:
    """Starts processes of both languages, each with a log in ``folder``, and kills them at the end."""

    def __init__(self, sidekiq_at: Sidekiq, environ: dict[str, str], folder: Path) -> None:
        self._sidekiq = sidekiq_at
        self._environ = environ
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def sidekiq(self, *options: str) -> subprocess.Popen[bytes]:
        return self._keep(start_sidekiq(self._sidekiq, self._environ, self._log("sidekiq"), *options))

    def offsider(self, *options: str, **environ: str) -> subprocess.Popen[bytes]:
        """``offsider worker -r python_jobs`` with these options; keywords are additional environment variables.

        The process is the parent: `worker_of` returns the pid of its worker.
        """
        log = self._log("offsider")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "offsider", "worker", "-r", "python_jobs", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environ | environ,
                cwd=self._folder,
                start_new_session=True,
            )
        return self._keep(process)

    def pages(self) -> str:
        """Sidekiq::Web in puma; returns its URL, which may not accept connections yet."""
        port = free_port()
        self._keep(start_pages(self._sidekiq, self._environ, self._log("pages"), port))
        return f"http://127.0.0.1:{port}"

    def end(self) -> None:
        for process in self._running:
            for pid in (process.pid, *children_of(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')}" for log in sorted(self._folder.glob("*.log"))
        )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}-{len(self._running)}.log"

    def _keep(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self._running.append(process)
        return process


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(sidekiq, id=name, marks=[] if sidekiq.folder else [pytest.mark.needs("sidekiq", "puma")])
        for name, sidekiq in sidekiqs().items()
    ],
)
def sidekiq_at(request: pytest.FixtureRequest) -> Sidekiq:
    return request.param


@pytest.fixture(scope="module")
def interop_url(sidekiq_at: Sidekiq) -> Iterator[str]:
    binary = shutil.which("redis-server")
    assert binary is not None, "modules of this folder carry the mark needs(redis-server)"
    with (
        tempfile.TemporaryDirectory(prefix="offsider-", ignore_cleanup_errors=True) as folder,
        EmbeddedServer(folder, binary=Path(binary), port=0) as server,
    ):
        yield server.url


@pytest.fixture(scope="module")
def environ(interop_url: str, sidekiq_at: Sidekiq) -> dict[str, str]:
    ours = {
        "REDIS_URL": interop_url,
        "OFFSIDER_REDIS_WIRE_VERSION": str(sidekiq_at.wire_version),
        "OFFSIDER_WORKER_LIVENESS_SECONDS": "10",
        "PYTHONPATH": str(HERE),
        "LANG": "C.UTF-8",
    }
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("OFFSIDER_", "REDIS", "VALKEY"))
    }
    return outside | ours


@pytest.fixture(scope="module")
def raw_redis(interop_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(interop_url) as client:
        yield client


@pytest.fixture(scope="module")
def config(interop_url: str, sidekiq_at: Sidekiq) -> Config:
    config = Config()
    config.redis.url = interop_url
    config.redis.wire_version = sidekiq_at.wire_version
    return config


@pytest.fixture(scope="module")
def client(config: Config) -> Iterator[Client]:
    client = Client(config)
    yield client
    client.close()


@pytest.fixture(scope="module")
def ruby(
    sidekiq_at: Sidekiq, environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RubyConsole]:
    with RubyConsole(sidekiq_at, environ, tmp_path_factory.mktemp("ruby") / "console.log") as console:
        yield console


@pytest.fixture(scope="module")
def processes(
    sidekiq_at: Sidekiq, environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Processes]:
    processes = Processes(sidekiq_at, environ, tmp_path_factory.mktemp("processes"))
    yield processes
    processes.end()
    print(processes.logs())  # pytest shows it when a test failed


@pytest.fixture(scope="module")
def seen(raw_redis: redis.Redis) -> Callable[[str], list[list[Any]]]:
    return lambda jid: [json.loads(run) for run in raw_redis.lrange(f"seen:{jid}", 0, -1)]
