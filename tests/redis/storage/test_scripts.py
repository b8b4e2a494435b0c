"""Every script on the servers that make a difference, called as its head declares."""

from importlib.resources import files

import pytest
import redis as redis_py

from offsider.client.client_registry import LIFE_SECONDS, NOTE_CLIENT
from offsider.core.errors import QueueFull, RedisRefused
from offsider.storage import finished_runs, queues, scripts, steps
from offsider.storage.finished_runs import Runs
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.scripts import Script, drop_flags, flags_are_accepted
from tests.redis.storage.every_verb import left_behind, seed, walk
from tests.snapshot import snapshot
from tests.waiting import wait_for

JID = "0123456789abcdef01234567"
LUA = files("offsider.storage") / "lua"
NAMES = {
    path.name.removesuffix(".lua")
    for path in (files("offsider.storage") / "lua").iterdir()
    if path.name.endswith(".lua")
}


class Recording(Redis):
    """Records the scripts that were run and their arguments."""

    def __init__(self, settings: RedisSettings) -> None:
        super().__init__(settings, size=2)
        self.calls = []

    def pipeline(self, commands, *, raise_errors=True):
        by_sha = {script.sha: script for script in list(scripts._every)}
        for _, sha, *rest in (command for command in commands if command[0] == "EVALSHA"):
            self.calls.append((by_sha[sha], rest[0], len(rest) - 1 - rest[0]))
        return super().pipeline(commands, raise_errors=raise_errors)


@pytest.fixture
def with_flags():
    """What a test does to the scripts of this process is taken back."""
    yield
    scripts._without_flags = False
    for script in list(scripts._every):
        script._use(script.source)


def test_every_script_leaves_the_expected_state(pool, raw_redis):
    seed(raw_redis, pool.keys)
    walk(pool)
    left_behind(pool.keys, snapshot(raw_redis))


def test_every_script_is_called_with_the_keys_and_arguments_that_it_declares(redis_url, raw_redis):
    recording = Recording(RedisSettings(url=redis_url))
    seed(raw_redis, recording.keys)
    walk(recording)
    recording.run(*queues.store_call(recording.keys, [(b"{}", None)], "default"))  # a part of pushes
    recording.run(NOTE_CLIENT, [recording.keys.clients], ["web-1:gunicorn:abc", LIFE_SECONDS])  # a part of pushes
    finished_runs.add(recording, {("HardJob", "succeeded"): Runs([JID], [1.0], [0.5])}, "v1", {})
    assert [run.jid for run in finished_runs.of_job(recording, JID)] == [JID]
    assert steps.signal(recording, JID, "paid", "1", 60)
    assert {script.name for script, _, _ in recording.calls} == NAMES
    for script, keys, arguments in recording.calls:
        for given, (declared, more) in ((keys, script.declared("KEYS")), (arguments, script.declared("ARGV"))):
            fits = given == declared or (more and given >= declared)
            assert fits, f"{script.name} declares {declared} keys or arguments and got {given}"


def test_every_written_key_has_the_prefix(redis_url, raw_redis, tag):
    """Several applications may share a server: nothing of one may land in the other's keys."""
    prefixed = Redis(RedisSettings(url=redis_url, key_prefix=f"{tag}resque:gitlab:"), size=2)
    seed(raw_redis, prefixed.keys)
    walk(prefixed)
    assert all(key.startswith("resque:gitlab:") for key in snapshot(raw_redis))
    left_behind(prefixed.keys, snapshot(raw_redis))


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_every_verb_works_on_a_server_in_cluster_mode_with_a_tagged_prefix(make_server, kind):
    """There a key that a script builds, or does not declare, is an error (rule 26)."""
    server = make_server(kind=kind, port=0, cluster_enabled="yes")
    with redis_py.Redis.from_url(server.url) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        tagged = Redis(RedisSettings(url=server.url, key_prefix="{app}:"), size=2)
        wait_for(lambda: b"cluster_state:ok" in tagged.call("CLUSTER", "INFO"))
        seed(client, tagged.keys)
        walk(tagged)
        left_behind(tagged.keys, snapshot(client))
        untagged = Redis(RedisSettings(url=server.url), size=1)
        with pytest.raises(RedisRefused) as refused:
            walk(untagged)
        assert refused.value.code == "CROSSSLOT"
        tagged.close()
        untagged.close()


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_full_server_is_drained_by_every_verb(make_server, kind):
    """LMOVE, ZADD and SET are refused when memory is full: only scripts with allow-oom still run."""
    server = make_server(kind=kind)
    full = Redis(RedisSettings(url=server.url), size=2)
    with redis_py.Redis.from_url(server.url) as client:
        seed(client, full.keys)
        client.config_set("maxmemory", 1)
        with pytest.raises(QueueFull):
            full.call("LMOVE", "queue:low", "elsewhere", "RIGHT", "LEFT")
        walk(full)
        left_behind(full.keys, snapshot(client))
    full.close()


def test_every_verb_works_without_flags(pool, raw_redis, with_flags):
    drop_flags()
    seed(raw_redis, pool.keys)
    walk(pool)
    left_behind(pool.keys, snapshot(raw_redis))


def test_the_allow_oom_flag_lets_a_full_server_be_drained(make_server, with_flags):
    server = make_server()
    full = Redis(RedisSettings(url=server.url), size=2)
    with redis_py.Redis.from_url(server.url) as client:
        seed(client, full.keys)
        client.config_set("maxmemory", 1)
        drop_flags()
        with pytest.raises(QueueFull):
            walk(full)
    full.close()


def test_our_servers_accept_flags_and_an_unknown_one_is_noticed(pool, monkeypatch):
    assert flags_are_accepted(pool) is True
    original = Script._use

    def with_an_unknown_flag(script, text):
        original(script, text.replace("flags=no-writes", "flags=no-such-flag"))

    monkeypatch.setattr(Script, "_use", with_an_unknown_flag)
    assert flags_are_accepted(pool) is False


def test_read_only_scripts_run_on_a_replica(make_server):
    """Without no-writes they would be refused with READONLY."""
    server = make_server(port=0)
    replica = Redis(RedisSettings(url=server.url), size=1)
    replica.call("LPUSH", "list", "job")
    replica.call("REPLICAOF", "127.0.0.1", "1")
    assert replica.run(Script("oldest"), ["list"], [100, 10]) == [b"job"]
    with pytest.raises(RedisRefused) as refused:
        replica.run(Script("lease"), ["lease"], ["me", "1"])
    assert refused.value.code == "READONLY"
    replica.close()


def test_scripts_are_sent_as_text_after_a_flush(pool, raw_redis):
    seed(raw_redis, pool.keys)
    raw_redis.script_flush()
    walk(pool)
    left_behind(pool.keys, snapshot(raw_redis))
