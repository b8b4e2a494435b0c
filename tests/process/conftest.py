"""Workers against an emptied Valkey; tests that ask for `raw_redis` or `redis_url` too would run on both servers.

Fixtures
    url       of the server
    tag       the beginning of every key there: the hash tag of a Cluster, else empty
    stored    a plain redis-py client of it
    workers   starts worker processes; all are gone after the test
    ledger    what their jobs noted
    config    a configuration for the server
    web       `offsider web` over it
    as_pid_1  the beginning of a command that runs as PID 1 of a namespace of its own
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from offsider.config.config import Config
from offsider.config.installation import Installation
from tests.process.ledger import Ledger
from tests.process.web_process import WebProcess
from tests.process.workers import Workers
from tests.tagged import client_of, prefix_of


@pytest.fixture
def url(embedded_url: str) -> str:
    return embedded_url


@pytest.fixture
def stored(url: str) -> Iterator[redis.Redis]:
    with client_of(url) as client:
        yield client


@pytest.fixture
def tag(url: str) -> str:
    return prefix_of(url)


@pytest.fixture
def workers(url: str, tmp_path: Path) -> Iterator[Workers]:
    started = Workers(tmp_path, url)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def ledger(workers: Workers) -> Ledger:
    return workers.ledger


@pytest.fixture
def config(url: str) -> Iterator[Config]:
    config = Config()
    config.redis.url = url
    config.client.push_timeout_seconds = 30.0  # a busy machine may need a second to connect
    yield config
    Installation.of(config).close()


@pytest.fixture
def as_pid_1() -> tuple[str, ...]:
    namespace = ("unshare", "--pid", "--fork", "--mount-proc")
    tried = shutil.which("unshare") and subprocess.run([*namespace, "true"], capture_output=True, check=False)
    if not tried or tried.returncode:
        pytest.skip("needs the right to make a PID namespace: run as root")
    return (*namespace, "--kill-child")


@pytest.fixture
def web(url: str, tmp_path: Path) -> Iterator[WebProcess]:
    process = WebProcess(tmp_path, url)
    yield process
    process.close()
