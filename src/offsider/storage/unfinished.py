"""How many jobs wait in queues or are being run, all counted at one moment.

A job that runs may push another one and end between two looks, and both looks would find nothing: so it is one
look, in a transaction.
"""

from __future__ import annotations

from offsider.storage import owners, places, queues
from offsider.storage.redis import Redis


def count_by_queue(redis: Redis) -> dict[str, int]:
    """The jobs of each queue that has some.

    Those in private lists count as ``"(running)"``, those in lists of extensions as ``"(parked)"``.
    """
    while True:
        names = queues.names(redis)
        working = [key for lists in owners.registered(redis) for key in lists.keys(redis)]
        further = places.keys_of(redis)
        listed = [*map(redis.keys.queue, names), *further, *working]
        sizes = [("SCARD", redis.keys.queues), ("SCARD", redis.keys.places)]
        commands = [("MULTI",), *sizes, *(("LLEN", key) for key in listed), ("EXEC",)]
        known_queues, known_places, *lengths = redis.pipeline(commands)[-1]
        if (known_queues, known_places) == (len(names), len(further)):  # else a new list has come meanwhile
            waiting = dict(zip(names, lengths, strict=False))
            parked, running = lengths[len(names) :][: len(further)], lengths[len(names) + len(further) :]
            counts = {**waiting, "(parked)": sum(parked), "(running)": sum(running)}
            return {name: number for name, number in counts.items() if number}
