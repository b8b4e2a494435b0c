"""Counts enqueued and running jobs in one snapshot.

A running job can push another one and end between two reads, and both reads would miss a job. So all counts are read in
one transaction.
"""

from __future__ import annotations

from offsider.storage import extension_lists, owners, queues
from offsider.storage.redis import Redis


def count_by_queue(redis: Redis) -> dict[str, int]:
    """Return the number of jobs of each non-empty queue.

    Jobs in private lists count as ``"(running)"``, jobs in lists of extensions as ``"(held)"``.
    """
    while True:
        names = queues.names(redis)
        working = [key for lists in owners.registered(redis) for key in lists.keys(redis)]
        further = extension_lists.keys_of(redis)
        listed = [*map(redis.keys.queue, names), *further, *working]
        sizes = [("SCARD", redis.keys.queues), ("SCARD", redis.keys.places)]
        commands = [("MULTI",), *sizes, *(("LLEN", key) for key in listed), ("EXEC",)]
        known_queues, known_places, *lengths = redis.pipeline(commands)[-1]
        if (known_queues, known_places) == (len(names), len(further)):  # otherwise a list was added: read again
            waiting = dict(zip(names, lengths, strict=False))
            held, running = lengths[len(names) :][: len(further)], lengths[len(names) + len(further) :]
            counts = {**waiting, "(held)": sum(held), "(running)": sum(running)}
            return {name: number for name, number in counts.items() if number}
