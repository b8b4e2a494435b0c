"""How long a failed job waits before its next run: Sidekiq's formula, with the random source passed in."""

from __future__ import annotations

from random import Random


def retry_delay(count: int, random: Random) -> float:
    """Seconds until the next run after failure number ``count`` (0 for the first).

    ``count**4 + 15`` plus jitter, as in Sidekiq 8: 25 retries span about three weeks.
    """
    return float(count**4 + 15 + jitter(count, random))


def jitter(count: int, random: Random) -> int:
    """Whole seconds, 0 to ``10 * (count + 1) - 1``, that keep jobs which failed together from returning together.

    Sidekiq adds it to delays chosen by the user as well.
    """
    return random.randint(0, 10 * (count + 1) - 1)
