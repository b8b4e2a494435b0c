"""What is stored on the server, job by job: the one side of the account that the ledger cannot know."""

from __future__ import annotations

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode
from offsider.inspector import DeadSet, JobRecord, Queue, RetrySet, ScheduledSet
from offsider.wiring.config import Config


def dead_keys(config: Config) -> set[str]:
    return {ledger_key(entry.raw) for entry in DeadSet(config)}


def other_keys(config: Config) -> set[str]:
    """Jobs in queues, in the schedule, in the retry set, and in the private lists of workers that are gone."""
    records: list[JobRecord] = [*ScheduledSet(config), *RetrySet(config)]
    for queue in Queue.all(config):
        records += queue
    return {ledger_key(record.raw) for record in records} | {ledger_key(raw) for raw in _held(config)}


def ledger_key(raw: bytes) -> str:
    """What the ledger calls a stored job: its jid, or the bytes themselves where there is none."""
    try:
        jid = decode(raw).get("jid")
    except MalformedPayload:
        jid = None
    return jid or raw.decode(errors="replace")


def _held(config: Config) -> list[bytes]:
    """A worker killed with -9 leaves its running jobs in private lists until the others declare it dead."""
    redis = config.make_redis(1)
    try:
        held: list[bytes] = []
        cursor = 0
        while True:
            reply = redis.call("SCAN", cursor, "MATCH", redis.keys.every_working, "COUNT", 1000)
            for key in reply[1]:
                held += redis.call("LRANGE", key, 0, -1)
            cursor = int(reply[0])
            if cursor == 0:
                return held
    finally:
        redis.close()
