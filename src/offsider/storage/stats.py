"""Counters: processed, failed, expired and unfinished jobs."""

from __future__ import annotations

from offsider.storage import hashes, owners, queues
from offsider.storage.effects import Effect
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import COMMANDS, Command

DAY_EXPIRY_SECONDS = 157_680_000  # five years, as Sidekiq keeps them


def commands_of(keys: Keys, processed: int, failed: int, day: str) -> list[Command]:
    """Return the commands that add to the counters; ``day`` is the UTC date ``YYYY-MM-DD``. Zeros are not written."""
    commands: list[Command] = []
    for name, count in (("processed", processed), ("failed", failed)):
        if count:
            daily = keys.stat_day(name, day)
            commands += [
                ("INCRBY", keys.stat(name), count),
                ("INCRBY", daily, count),
                ("EXPIRE", daily, DAY_EXPIRY_SECONDS),
            ]
    return commands


def counting_expired(keys: Keys, name: str) -> Effect:
    """Return the effect that counts an expired job. ``name``: its registered class; empty for other classes."""
    return Effect(COMMANDS, [keys.expired], ["HINCRBY", 2, name, 1])


def expired_counts(redis: Redis) -> dict[str, int]:
    """Return the number of expired jobs by class; classes that no worker knew are counted under an empty name."""
    return hashes.wholes(redis.call("HGETALL", redis.keys.expired))


def count_by_queue(redis: Redis) -> dict[str, int]:
    """Return the number of jobs of each non-empty queue.

    Jobs in private lists count as ``"(running)"``, jobs in lists of extensions as ``"(held)"``. A running job can push
    another one and end between two reads, and both reads would miss a job. So one transaction reads all counts.
    """
    while True:
        names = queues.names(redis)
        working = [key for lists in owners.registered(redis) for key in lists.keys(redis)]
        further = queues.extension_lists(redis)
        listed = [*map(redis.keys.queue, names), *further, *working]
        sizes = [("SCARD", redis.keys.queues), ("SCARD", redis.keys.places)]
        commands = [("MULTI",), *sizes, *(("LLEN", key) for key in listed), ("EXEC",)]
        known_queues, known_places, *lengths = redis.pipeline(commands)[-1]
        if (known_queues, known_places) == (len(names), len(further)):  # otherwise a list was added: read again
            waiting = dict(zip(names, lengths, strict=False))
            held, running = lengths[len(names) :][: len(further)], lengths[len(names) + len(further) :]
            counts = {**waiting, "(held)": sum(held), "(running)": sum(running)}
            return {name: number for name, number in counts.items() if number}
