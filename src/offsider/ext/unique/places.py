"""Walk through every list and set where a job can be, in small steps, while jobs move.

A job moves from the schedule or the retry set to a queue, from there to a private list, and from there to any of them.
An extension may hold a claimed job in its own list, from which it returns to the head of its queue. A job that is put
off before it starts goes to the schedule, for at least a second. The walk goes in the same direction: private lists,
sets, queues, lists of extensions, then the private lists together with the next jobs of each queue and each such list,
read in one transaction, and the schedule once more. So the walk meets every job that exists all the time and does not
start to run during the walk:

1. A running job is in a private list when the walk begins, or its run has ended and it is in a set or a queue before
   the walk reads those.
2. A job in a set stays there, or is in its queue before the walk reads the queues.
3. A job in a queue stays there, or is claimed. A claimed job that has not run can only return to the head of its queue,
   which is read together with the private lists; or be held; or be put off, and then the last read of the private
   lists or the read of the schedule after it finds the job.
4. A job that was held before the walk reads the lists of extensions is there, or has returned. A job held later was
   claimed shortly before, when private lists were read again, or is still at one end of its list.
5. A job that a migration moves here from another server is in transit before all of that, or already here. A job that
   leaves later has taken its lock since the walk began.
6. A migration rotates a queue: jobs go from the head to the tail, which the walk reads later.

The caller frees a lock only if its job has not started to run since the walk began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from offsider.storage import migration, owners, processes, queue_walk, queues
from offsider.storage.queue_walk import Place
from offsider.storage.redis import Redis

#: Jobs per step.
STEP = 500
#: Jobs at the head of each queue, and at both ends of extensions' lists, that are read with the private lists.
NEXT_JOBS = 200

_JID = re.compile(rb'"jid"\s*:\s*"([^"\\]{1,200})"')


def jids_in(raws: Sequence[bytes]) -> set[str]:
    """Return all jids in stored jobs, including jids in arguments: one too many does no harm."""
    return {jid.decode(errors="replace") for raw in raws for jid in _JID.findall(raw)}


def walk(redis: Redis, step: int = STEP, others: Sequence[Redis] = ()) -> Iterator[set[str]]:
    """Yield the jids of jobs in every list and set, step by step. Nothing is locked between steps.

    Args:
        others: the other servers, from which jobs may be moving to this one.
    """
    for server in (redis, *others):
        yield from _in_transit(server, step)
    yield _claimed(redis)
    for sorted_set in (redis.keys.schedule, redis.keys.retry):
        yield from _in_set(redis, sorted_set, step)
    for queue in queues.names(redis):
        yield from _in_list(redis, redis.keys.queue(queue), step)
    further = queues.extension_lists(redis)
    if further:
        yield _claimed(redis)
    for key in further:
        yield from _in_list(redis, key, step)
    yield _claimed(redis)
    yield from _in_set(redis, redis.keys.schedule, step)


def _in_transit(server: Redis, step: int) -> Iterator[set[str]]:
    for transit in migration.transits(server):
        yield from _in_list(server, server.keys.migrating(transit.id), step)


def _in_set(redis: Redis, sorted_set: str, step: int) -> Iterator[set[str]]:
    cursor = b"0"
    while True:
        cursor, reply = redis.call("ZSCAN", sorted_set, cursor, "COUNT", step)
        yield jids_in(reply[::2])
        if cursor == b"0":
            return


def _in_list(redis: Redis, key: str, step: int) -> Iterator[set[str]]:
    place = Place()
    while True:
        start, raws = queue_walk.read_on(redis, key, place, step)
        if not raws:
            return
        yield jids_in(raws)
        place = place.after(start + len(raws), raws)


def _claimed(redis: Redis) -> set[str]:
    """Read private lists and the heads of queues in one transaction, and the jobs that processes report as running."""
    while True:
        known, further, names = _raw_owners(redis), queues.extension_lists(redis), queues.names(redis)
        lists = [key for owner in owners.registered(redis) for key in owner.keys(redis)]
        commands = [
            ("MULTI",),
            ("HGETALL", redis.keys.owners),
            ("SMEMBERS", redis.keys.places),
            *(("LRANGE", key, 0, -1) for key in lists),
            *(("LRANGE", key, -NEXT_JOBS, -1) for key in [*map(redis.keys.queue, names), *further]),
            *(("LRANGE", key, 0, NEXT_JOBS - 1) for key in further),
            ("EXEC",),
        ]
        now_known, now_further, *found = redis.pipeline(commands)[-1]
        # Otherwise a new worker or list was registered since: read again.
        if now_known == known and len(now_further) == len(further):
            return jids_in([raw for raws in found for raw in raws]) | _reported_running(redis)


def _raw_owners(redis: Redis) -> object:
    return redis.call("HGETALL", redis.keys.owners)


def _reported_running(redis: Redis) -> set[str]:
    """Return the jobs that processes report as running. Running jobs of Ruby are in no private list."""
    keys = [key for identity in processes.identities(redis) for key in _work_keys(redis, identity)]
    replies = redis.pipeline([("HVALS", key) for key in keys]) if keys else []
    return jids_in([payload for works in replies for work in works for payload in _payloads(work)])


def _work_keys(redis: Redis, identity: str) -> tuple[str, str]:
    return redis.keys.work(identity), redis.keys.workers(identity)


def _payloads(work: bytes) -> list[bytes]:
    try:
        payload = json.loads(work)["payload"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return [work]
    return [payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()]
