"""The delay before a retry: Sidekiq's formula, with the random source as an argument."""

from __future__ import annotations

from random import Random


def retry_delay(count: int, random: Random) -> float:
    """Seconds until the next run after failure number ``count`` (0 for the first).

    ``count**4 + 15`` plus jitter, as in Sidekiq 8: 25 retries span about three weeks.
    """
    return float(count**4 + 15 + jitter(count, random))


def jitter(count: int, random: Random) -> int:
    """Random whole seconds, 0 to ``10 * (count + 1) - 1``: jobs that failed together are not retried together.

    Sidekiq adds it to delays of a user's ``retry_in`` too.
    """
    return random.randint(0, 10 * (count + 1) - 1)
