"""Who this worker is: registered before anything is claimed, and under a new name once it was declared dead."""

from __future__ import annotations

import json
import os
import re
import socket
import time

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.storage import owners
from offsider.worker.alive import ownership
from offsider.worker.alive.ownership import Liveness, new_identity
from tests.snapshot import snapshot


def registered(client) -> dict[str, dict]:
    return {name.decode(): json.loads(lists) for name, lists in client.hgetall("offsider:owners").items()}


def test_an_identity_is_written_as_sidekiq_writes_it(monkeypatch):
    host, pid, nonce = new_identity().rsplit(":", 2)
    assert (host, pid) == (socket.gethostname(), str(os.getpid()))
    assert re.fullmatch(r"[0-9a-f]{12}", nonce)
    monkeypatch.setenv("DYNO", "worker.3")
    assert new_identity().startswith("worker.3:")


def test_each_identity_has_a_nonce_of_its_own_in_a_forked_child_too():
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, new_identity().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 1000).decode()
    os.close(read)
    os.close(write)
    assert len({theirs.rpartition(":")[2], *(new_identity().rpartition(":")[2] for _ in range(100))}) == 101


def test_registering_names_the_lists_and_beats(parts, raw_redis):
    parts.ownership.register()
    identity = parts.ownership.identity
    assert snapshot(raw_redis) == {
        f"offsider:alive:{identity}": b"1",
        "offsider:owners": {identity.encode(): b'{"default": ["default"]}'},
    }
    assert 40_000 < raw_redis.pttl(f"offsider:alive:{identity}") <= 45_000


def test_a_later_beat_only_extends_the_period(parts, raw_redis):
    parts.ownership.register()
    raw_redis.pexpire(parts.redis.keys.alive(parts.ownership.identity), 1000)
    raw_redis.config_resetstat()
    parts.ownership.register()
    assert raw_redis.pttl(parts.redis.keys.alive(parts.ownership.identity)) > 40_000
    calls = {name for name, stats in raw_redis.info("commandstats").items() if stats["calls"]}
    assert calls == {"cmdstat_pexpire", "cmdstat_pttl", "cmdstat_config|resetstat"}


@pytest.mark.parametrize("lost", ["alive", "owners"])
def test_a_registration_that_the_server_has_lost_is_written_again(parts, raw_redis, monkeypatch, lost):
    parts.ownership.register()
    identity = parts.ownership.identity
    raw_redis.delete(parts.redis.keys.alive(identity) if lost == "alive" else parts.redis.keys.owners)
    if lost == "owners":  # it is written once in each liveness period
        now = time.monotonic()
        monkeypatch.setattr(ownership.time, "monotonic", lambda: now + 45)
    parts.ownership.register()
    assert raw_redis.exists(parts.redis.keys.alive(identity))
    assert list(registered(raw_redis)) == [identity]


def test_leaving_with_empty_lists_leaves_nothing(parts, raw_redis):
    parts.ownership.register()
    assert parts.ownership.leave()
    assert snapshot(raw_redis) == {}


def test_leaving_with_jobs_in_a_list_leaves_them_to_be_found(parts, raw_redis):
    parts.ownership.register()
    raw_redis.lpush(parts.working, "job")
    assert not parts.ownership.leave()
    assert list(registered(raw_redis)) == [parts.ownership.identity]


# -------------------------------------------------------------------------------------- fence


def test_a_fenced_owner_registers_under_a_new_identity(parts, raw_redis, caplog):
    parts.ownership.register()
    old = parts.ownership.identity
    owners_fence(parts, raw_redis, old)
    parts.ownership.register()
    new = parts.ownership.identity
    assert new.rpartition(":")[0] == old.rpartition(":")[0]
    assert new != old
    assert set(registered(raw_redis)) == {old, new}, "the old lists stay for whoever reclaims them"
    assert f"{old} sent no heartbeat in time and was declared dead" in caplog.text


def owners_fence(parts, raw_redis, identity: str) -> None:
    raw_redis.delete(parts.redis.keys.alive(identity))
    assert owners.fence(parts.redis, owners.Lists(identity, {}))


def test_an_identity_is_used_only_when_the_registry_has_it(proxied, proxy, raw_redis):
    """Otherwise a claim would fill lists that no process finds (rule 1)."""
    proxied.ownership.register()
    old = proxied.ownership.identity
    raw_redis.set(proxied.redis.keys.fenced(old), 1)
    proxy.lose_request(owners.BEAT.sha.encode())
    with pytest.raises(RedisUnavailable):
        proxied.ownership.renew(old)
    assert proxied.ownership.identity == old
    proxied.ownership.renew(old)
    assert proxied.ownership.identity in registered(raw_redis)


# ------------------------------------------------------------------------------- additional queues


def test_new_queues_are_registered_before_they_are_served(parts, raw_redis):
    parts.ownership.register()
    parts.ownership.serve("default", ["low", "default", "high"])
    assert registered(raw_redis) == {parts.ownership.identity: {"default": ["default", "low", "high"]}}


def test_registered_queues_cost_no_request(parts, raw_redis):
    parts.ownership.serve("default", ["default"])
    assert snapshot(raw_redis) == {}


def test_a_queue_that_could_not_be_registered_is_tried_again(proxied, proxy, raw_redis):
    proxied.ownership.register()
    proxy.lose_request(owners.BEAT.sha.encode())
    with pytest.raises(RedisUnavailable):
        proxied.ownership.serve("default", ["low"])
    assert registered(raw_redis)[proxied.ownership.identity] == {"default": ["default"]}
    proxied.ownership.serve("default", ["low"])
    assert registered(raw_redis)[proxied.ownership.identity] == {"default": ["default", "low"]}


def test_a_late_beat_does_not_register_an_owner_that_has_left(parts, raw_redis):
    parts.ownership.register()
    assert parts.ownership.leave()
    parts.ownership.register()
    assert snapshot(raw_redis) == {}


def test_it_beats_five_times_in_a_life_and_audits_each_time(parts, raw_redis):
    audits = []
    liveness = Liveness(parts.config, parts.ownership, [lambda: audits.append(1)])
    assert liveness.tick() == pytest.approx(9.0)
    assert raw_redis.exists(parts.redis.keys.alive(parts.ownership.identity))
    assert audits == [1]


def test_a_beat_that_was_not_written_is_tried_again_within_a_second_and_reported_once(proxied, proxy, raw_redis):
    audits = []
    liveness = Liveness(proxied.config, proxied.ownership, [lambda: audits.append(1)])
    proxy.refuse()
    assert [liveness.tick() for _ in range(3)] == [1.0, 1.0, 1.0]
    assert [reported["context"] for _, reported in proxied.errors] == ["liveness"]
    assert audits == []
    proxy.accept()
    assert liveness.tick() == pytest.approx(9.0)
    assert audits == [1]
