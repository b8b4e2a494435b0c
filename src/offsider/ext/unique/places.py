"""Every place where a job can be, walked through in small steps while jobs move on.

A job goes from the schedule or the retry set to a queue, from there to a private list, and from there back to any of
them; an extension may park a claimed job in a list of its own, from where it goes back to the head of its queue; and
one that is put off before it begins goes to the schedule, for a second at least. The walk goes the same way: private
lists, sets, queues, lists of extensions, then private lists together with the next jobs of each queue and of each such
list, which are read in one transaction, and the schedule once more. So a job that is somewhere all the time, and that
does not begin to run meanwhile, is met:

1. One that is being run is in a private list when the walk begins; or its run is over, and it is in one of the sets or
   in a queue before they are looked at.
2. One in a set stays there, or has gone to its queue before the queues are looked at.
3. One in a queue stays there, or has been claimed. A claimed job that has not run can only go back to the head of its
   queue, and there it is seen beside the private lists; or be parked; or be put off, and then it has left the private
   list before the last look there or is met by that, and in the schedule after it.
4. One that was parked before the lists of extensions are looked at is met there, or has gone back; one that is parked
   later was claimed right before, when private lists were looked at once more, or is still at one end of its list.
5. One that a migration takes along, here or from another server to this one, is in a journal before all that, or has
   come here already. A job that goes into a journal later has taken its lock since the walk began.

Whoever frees a lock makes sure that its job has not begun to run since the walk began.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from offsider.storage import migration, owners, places, processes, queue_walk, queues
from offsider.storage.queue_walk import Place
from offsider.storage.redis import Redis

#: Jobs in one step.
STEP = 500
#: The jobs at the head of each queue, and at the ends of further lists, that are looked at with the private lists.
NEXT_JOBS = 200

_JID = re.compile(rb'"jid"\s*:\s*"([^"\\]{1,200})"')


def jids_in(raws: Sequence[bytes]) -> set[str]:
    """The ids that occur in stored jobs, those in their arguments among them: rather one too many."""
    return {jid.decode(errors="replace") for raw in raws for jid in _JID.findall(raw)}


def walk(redis: Redis, step: int = STEP, others: Sequence[Redis] = ()) -> Iterator[set[str]]:
    """The ids of the jobs at every place, step by step; between steps nothing is held.

    Args:
        others: the other servers, from which jobs may be on their way to this one.
    """
    for server in (redis, *others):
        yield from _on_their_way(server, step)
    yield _claimed(redis)
    for sorted_set in (redis.keys.schedule, redis.keys.retry):
        yield from _in_set(redis, sorted_set, step)
    for queue in queues.names(redis):
        yield from _in_list(redis, redis.keys.queue(queue), step)
    further = places.keys_of(redis)
    if further:
        yield _claimed(redis)
    for key in further:
        yield from _in_list(redis, key, step)
    yield _claimed(redis)
    yield from _in_set(redis, redis.keys.schedule, step)


def _on_their_way(server: Redis, step: int) -> Iterator[set[str]]:
    for journal in migration.journals(server):
        yield from _in_list(server, server.keys.migrating(journal.id), step)


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
        start, raws = queue_walk.read_on_list(redis, key, place, step)
        if not raws:
            return
        yield jids_in(raws)
        place = place.after(start + len(raws), raws)


def _claimed(redis: Redis) -> set[str]:
    """What private lists hold and what is next in the queues, at one moment; and what others say that they run."""
    while True:
        known, further, names = _raw_owners(redis), places.keys_of(redis), queues.names(redis)
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
        # Else a worker has come meanwhile, with lists of its own, or a first job was parked.
        if now_known == known and len(now_further) == len(further):
            return jids_in([raw for raws in found for raw in raws]) | _said_to_run(redis)


def _raw_owners(redis: Redis) -> object:
    return redis.call("HGETALL", redis.keys.owners)


def _said_to_run(redis: Redis) -> set[str]:
    """The jobs that processes show as running: those of Ruby are in no private list meanwhile."""
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
