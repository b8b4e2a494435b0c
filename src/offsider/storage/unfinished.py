"""How many jobs wait in queues or are being run, all counted at one moment.

A job that runs may push another one and end between two looks, and both looks would find nothing: so it is one
look, in a transaction.
"""

from __future__ import annotations

from offsider.storage import owners, queues
from offsider.storage.redis import Redis


def count_by_queue(redis: Redis) -> dict[str, int]:
    """The jobs of each queue that has some; those in private lists count as ``"(running)"``."""
    while True:
        names = queues.names(redis)
        working = [key for lists in owners.registered(redis) for key in lists.keys(redis)]
        listed = [*map(redis.keys.queue, names), *working]
        commands = [("MULTI",), ("SCARD", redis.keys.queues), *(("LLEN", key) for key in listed), ("EXEC",)]
        known, *lengths = redis.pipeline(commands)[-1]
        if known == len(names):  # else a new queue has come meanwhile
            waiting = dict(zip(names, lengths, strict=False))
            counts = {**waiting, "(running)": sum(lengths[len(names) :])}
            return {name: number for name, number in counts.items() if number}
