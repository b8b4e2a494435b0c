"""An idle worker with its parent sends three commands a second; a script is one command."""

from __future__ import annotations

from collections import Counter

import redis

from tests.waiting import wait_for

HEARTBEATS = 6  # a minute
PER_HEARTBEAT = 30  # three a second
#: Commands that only the two scripts of each second run: reader of the controls, scheduler.
INSIDE_SCRIPTS = {"get", "exists", "getex", "zrange"}
#: What happens once a minute may be counted twice within `HEARTBEATS`.
ONCE_A_MINUTE = 30
#: Commands of the test itself, and those by which replicas of a Cluster acknowledge writes.
NOT_OF_THE_WORKER = {"info", "config|resetstat", "replconf"}

APPLICATION = """
    from offsider import job

    @job
    def nothing() -> None: ...
"""


def commands(stored: redis.Redis) -> Counter[str]:
    """Return the number of calls of each command, including those of scripts."""
    calls = {name.removeprefix("cmdstat_"): stats["calls"] for name, stats in stored.info("commandstats").items()}
    return Counter({name: count for name, count in calls.items() if name not in NOT_OF_THE_WORKER})


def test_an_idle_worker_and_its_parent_send_three_commands_a_second(workers, stored):
    """A minute of them: measured in heartbeats, so that a busy machine counts no more of them than an idle one."""
    workers.start("-c", "5", text=APPLICATION)
    wait_for(lambda: commands(stored)["sadd"] >= 2, 60, "two heartbeats")
    before = commands(stored)
    wait_for(lambda: commands(stored)["sadd"] >= before["sadd"] + HEARTBEATS, 150, "a minute of heartbeats")
    sent = commands(stored) - before
    described = ", ".join(f"{count} {name}" for name, count in sent.most_common())
    inside = sum(sent[name] for name in INSIDE_SCRIPTS)
    assert sent.total() - inside <= HEARTBEATS * PER_HEARTBEAT + ONCE_A_MINUTE, described
    often = {name: count for name, count in sent.items() if count > 2 * HEARTBEATS}
    assert often.keys() <= {*INSIDE_SCRIPTS, "pexpire", "expire", "evalsha"}, described
    assert sent["pexpire"] <= HEARTBEATS * 10 / 5 + ONCE_A_MINUTE / 10, described
    assert inside <= 5 * HEARTBEATS * 10 + ONCE_A_MINUTE, described
