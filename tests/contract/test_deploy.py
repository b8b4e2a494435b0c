"""The deployment files match the code: enough time to stop, existing probes, valid commands."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from offsider.cli.health import response
from offsider.cli.status import MIN_WATCHDOG_SECONDS
from offsider.config.config import Config
from offsider.worker.health_state import HealthState
from tests.docs.commands import check

DEPLOY = Path(__file__).parents[2] / "deploy"
#: From the end of the running jobs' time to the end of the process, with a second to spare.
LAST_SECONDS = 5
TIMEOUT_SECONDS = Config().worker.timeout_seconds
INSTRUCTION = re.compile(r"([A-Z]+) (.+)")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile, instruction by instruction."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found = [INSTRUCTION.fullmatch(line) for line in text.splitlines() if line]
    assert all(found), text
    return [(match[1], " ".join(match[2].split())) for match in found if match]


def last(name: str) -> str:
    return [words for instruction, words in instructions() if instruction == name][-1]


def compose() -> dict[str, dict]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def pod() -> dict:
    [deployment] = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    return deployment["spec"]["template"]["spec"]


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "offsider.service")
    return parser


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def command_lines() -> dict[str, list[str]]:
    """Every command line that starts a worker, by file."""
    [container] = pod()["containers"]
    procfile = yaml.safe_load((DEPLOY / "Procfile").read_text())["worker"]
    service = shlex.split(unit()["Service"]["ExecStart"])
    return {
        "Dockerfile": json.loads(last("CMD")),
        "kubernetes.yaml": container["command"],
        "offsider.service": [Path(service[0]).name, *service[1:]],
        "Procfile": shlex.split(re.sub(r"\$\{\w+:-(\w+)\}", r"\1", procfile)),
    }


@pytest.mark.parametrize("file", command_lines())
def test_every_command_is_one_that_we_understand(file):
    words = command_lines()[file]
    assert words[:2] == ["offsider", "worker"]
    assert words[words.index("-r") + 1] == "shop"
    check(shlex.join(words))


def test_the_application_that_they_name_declares_a_job():
    tree = ast.parse((DEPLOY / "shop.py").read_text())
    assert any(isinstance(node, ast.FunctionDef) and node.decorator_list for node in tree.body)
    assert (DEPLOY / "requirements.txt").read_text().startswith("offsider")


def test_every_platform_waits_until_a_worker_has_stopped():
    assert seconds(compose()["worker"]["stop_grace_period"]) == TIMEOUT_SECONDS + LAST_SECONDS
    assert float(unit()["Service"]["TimeoutStopSec"]) == TIMEOUT_SECONDS + LAST_SECONDS
    [container] = pod()["containers"]
    [_, _, quiet] = container["lifecycle"]["preStop"]["exec"]["command"]
    signal, pause = quiet.split("; sleep ")
    assert signal == "kill -TSTP 1"
    assert pod()["terminationGracePeriodSeconds"] == TIMEOUT_SECONDS + LAST_SECONDS + float(pause)


def test_the_probes_request_existing_paths():
    [container] = pod()["containers"]
    command = container["command"]
    port = int(command[command.index("--health") + 1].rpartition(":")[2])
    assert container["ports"] == [{"name": "health", "containerPort": port}]
    for probe, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
        answer = response(f"GET {path} HTTP/1.1\r\n\r\n".encode(), HealthState())
        assert b" 404 " not in answer.splitlines()[0]


def test_the_health_check_of_the_image_uses_the_address_of_the_worker():
    [address] = re.findall(r"OFFSIDER_WORKER_HEALTH=(\S+)", last("ENV"))
    words = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    assert f"http://{address}/live" in words[-1]
    ast.parse(words[-1])


def test_containers_run_without_root_on_a_read_only_file_system():
    assert int(last("USER")) > 0
    security = pod()["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == int(last("USER"))
    [container] = pod()["containers"]
    own = container["securityContext"]
    assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    assert "cpu" not in container["resources"]["limits"]
    worker = compose()["worker"]
    assert (worker["read_only"], worker["cap_drop"]) == (True, ["ALL"])


def test_the_image_copies_existing_files_and_starts_without_a_shell():
    for name, words in instructions():
        assert name in {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "STOPSIGNAL", "HEALTHCHECK", "CMD"}
        if name == "COPY" and not words.startswith("--from"):
            assert (DEPLOY / words.split()[0]).is_file(), words
    assert last("STOPSIGNAL") == "SIGTERM"
    assert compose()["worker"]["build"] == "."


def test_the_server_of_compose_keeps_jobs():
    words = compose()["valkey"]["command"]
    given = dict(zip(words[1::2], words[2::2], strict=True))
    assert given == {"--appendonly": "yes", "--appendfsync": "everysec", "--maxmemory-policy": "noeviction"}
    host = compose()["worker"]["environment"]["REDIS_URL"].split("//")[1].split(":")[0]
    assert host in compose()
    assert compose()["worker"]["depends_on"] == {host: {"condition": "service_healthy"}}
    assert compose()[host]["healthcheck"]["test"][0] == "CMD"


def test_systemd_is_notified_by_the_worker_and_watches_it():
    service = unit()["Service"]
    assert (service["Type"], service["KillSignal"], service["KillMode"]) == ("notify", "SIGTERM", "mixed")
    assert float(service["WatchdogSec"]) >= MIN_WATCHDOG_SECONDS
    assert service["ExecReload"] == "/bin/kill -TSTP $MAINPID"
    assert service["NoNewPrivileges"] == "true"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_systemd_finds_nothing_to_complain_about(tmp_path):
    text = (DEPLOY / "offsider.service").read_text()
    here = tmp_path / "offsider.service"
    here.write_text(text.replace("/srv/shop/.venv/bin/offsider", sys.executable))
    run = subprocess.run(["systemd-analyze", "verify", str(here)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
