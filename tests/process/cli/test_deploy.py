"""The deployment files in use: their command lines are run, and the configuration of their server is checked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.embedded.folder import free_port
from offsider.worker.boot_checks import check_boot
from tests.conftest import binary_of
from tests.process.stored import payload, private, push_raw, waiting
from tests.process.workers import children_of
from tests.waiting import wait_for

DEPLOY = Path(__file__).parents[3] / "deploy"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture
def shop(tmp_path) -> Path:
    """A folder with the application, as the image has it."""
    folder = tmp_path / "srv"
    folder.mkdir()
    shutil.copy(DEPLOY / "shop.py", folder)
    return folder


def order(stored) -> None:
    push_raw(stored, json.dumps(payload("shop.send_receipt", 7)).encode())


def test_the_line_of_the_procfile_runs_jobs_and_ends_at_term(workers, stored, shop):
    line = yaml.safe_load((DEPLOY / "Procfile").read_text())["worker"]
    # As a platform starts it: in a shell that is replaced.
    command = ("sh", "-c", f"exec {line}")
    worker = workers.start(app=None, command=command, folder=shop, environ={"PATH": PATH, "WORKER_THREADS": "3"})
    assert "running <Capsule default: 3 threads, queues default" in worker.output
    order(stored)
    worker.until_says("receipt of order 7 sent")
    worker.stopped()
    assert waiting(stored) == private(stored) == []


def test_the_command_of_the_image_as_pid_1_passes_its_health_check_and_ends_at_term(workers, stored, shop, as_pid_1):
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    command = json.loads(next(line for line in lines if line.startswith("CMD "))[4:])
    asks = json.loads(next(line for line in lines if line.startswith("    CMD "))[8:])
    port = free_port()
    environ = {"PATH": PATH, "OFFSIDER_WORKER_HEALTH": f"127.0.0.1:{port}"}
    worker = workers.start(app=None, command=(*as_pid_1, *command), folder=shop, environ=environ)
    order(stored)
    worker.until_says("receipt of order 7 sent")

    asks = [sys.executable, "-c", asks[-1].replace("7433", str(port))]
    wait_for(lambda: subprocess.run(asks, check=False, timeout=40).returncode == 0)  # the image retries it as well

    (init,) = children_of(worker.parent)
    order(stored)
    os.kill(init, signal.SIGTERM)
    assert worker.ended() == 0
    assert not Path(f"/proc/{init}").exists()
    assert subprocess.run(asks, check=False, timeout=40, capture_output=True).returncode == 1
    assert private(stored) == []


def test_the_server_of_compose_is_passed_by_the_boot_checks_in_silence(tmp_path):
    words = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["valkey"]["command"]
    port = free_port()
    command = [str(binary_of("valkey")), *words[1:], "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        config = Config()
        config.redis.url = f"redis://127.0.0.1:{port}/0"
        wait_for(lambda: answers(config))
        assert check_boot(config) == []
    finally:
        server.terminate()
        server.wait()


def answers(config: Config) -> bool:
    try:
        Installation.of(config).redis.call("PING")
    except Exception:
        return False
    return True
