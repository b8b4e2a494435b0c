"""Statistics of runs: is a share of runs higher than before, since when, and does one release differ from another?

Sources: the score interval is from E. B. Wilson, "Probable inference, the law of succession, and statistical
inference", JASA 22 (1927). The exact test of two shares is from R. A. Fisher, "Statistical methods for research
workers", section 21.02. The step is the split with the maximum likelihood of D. V. Hinkley and E. A. Hinkley,
"Inference about the change-point in a sequence of binomial variables", Biometrika 57 (1970). Counts that vary more
than independent runs would are scaled as in P. McCullagh and J. A. Nelder, "Generalized linear models", section 4.5.
The level of each test is divided by the number of tests (C. E. Bonferroni), so that many classes of jobs cause no
finding by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: Two-sided 99 % of the normal distribution.
Z99 = 2.5758293035489004
#: Level of all tests of one examination together.
LEVEL = 0.01
#: Fewer hits are no step.
MIN_HITS = 3
#: A smaller difference of two shares is no step.
MIN_DIFFERENCE = 0.05
#: A step is reported after this time.
MIN_STEP_SECONDS = 120.0
_MINUTE = 60


class Share(NamedTuple):
    """A share of runs, such as the failed ones.

    Attributes:
        hits: number of these runs.
        runs: number of all runs.
    """

    hits: float
    runs: float

    @property
    def value(self) -> float:
        """The share; 0 without runs."""
        return self.hits / self.runs if self.runs else 0.0

    def interval(self, z: float = Z99) -> tuple[float, float]:
        """Return Wilson's score interval; 0 to 1 without runs."""
        if not self.runs:
            return 0.0, 1.0
        share, squared = self.value, z * z
        middle = share + squared / (2 * self.runs)
        spread = z * math.sqrt(share * (1 - share) / self.runs + squared / (4 * self.runs * self.runs))
        scale = 1 + squared / self.runs
        return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)

    def scaled(self, factor: float) -> Share:
        """Return the same share of fewer runs."""
        return Share(self.hits / factor, self.runs / factor)


def exceeds(one: Share, other: Share) -> float:
    """Return Fisher's exact probability that ``one`` is by chance as much higher than ``other``, or more."""
    hits, runs = round(one.hits), round(one.runs)
    all_hits, all_runs = hits + round(other.hits), runs + round(other.runs)
    most = min(runs, all_hits)
    if hits > most:
        return 1.0
    term = math.exp(_choose(all_hits, hits) + _choose(all_runs - all_hits, runs - hits) - _choose(all_runs, runs))
    total = 0.0
    for count in range(hits, most + 1):
        total += term
        if term < total * 1e-12:
            break
        rest = all_runs - all_hits - runs + count + 1
        term *= (all_hits - count) * (runs - count) / ((count + 1) * rest) if rest else 0.0
    return min(1.0, total)


def _choose(n: int, k: int) -> float:
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def median(values: Sequence[float]) -> float:
    """Return the median; 0 without values."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return 0.0
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(buckets: Sequence[int], bounds: Sequence[float], share: float) -> float | None:
    """Return the upper bound of the bucket with this percentile; infinite above the last bound; None without runs.

    Args:
        buckets: number of values per bucket, with one more for those above the last bound.
        bounds: upper bounds.
        share: 0.95 for the 95th percentile.
    """
    needed, seen = math.ceil(sum(buckets) * share), 0
    if not needed:
        return None
    for bound, count in zip((*bounds, math.inf), buckets, strict=True):
        seen += count
        if seen >= needed:
            return bound
    raise AssertionError("the sum of the buckets is at least the needed count")


def dispersion(*parts: Sequence[Share]) -> float:
    """Return how much more the shares of minutes vary than those of independent runs; at least 1.

    This is Pearson's chi-square per degree of freedom, where each part has a share of its own.
    """
    chi_square, degrees = 0.0, 0
    for part in parts:
        with_runs = [minute for minute in part if minute.runs]
        share = Share(sum(minute.hits for minute in with_runs), sum(minute.runs for minute in with_runs)).value
        if 0 < share < 1:
            squares = sum((minute.hits - minute.runs * share) ** 2 / minute.runs for minute in with_runs)
            chi_square += squares / (share * (1 - share))
            degrees += len(with_runs) - 1
    return max(1.0, chi_square / degrees) if degrees else 1.0


@dataclass(frozen=True)
class ShareStep:
    """A share that is higher than before.

    Attributes:
        minute: position of its first minute.
        before, after: the shares of the minutes before, and since then.
        was: median of the shares of the minutes before.
    """

    minute: int
    before: Share
    after: Share
    was: float


def find_step(minutes: Sequence[Share], last_seconds: float, tests: int) -> ShareStep | None:
    """Return the most likely step to a higher share; None if there is none.

    1. It lasts for at least `MIN_STEP_SECONDS`, with at least `MIN_HITS` hits, and the difference is
       `MIN_DIFFERENCE`.
    2. The 99 % intervals of both shares do not overlap.
    3. Fisher's test has a probability of at most `LEVEL`, divided by the number of all tests.

    In 2 and 3 the counts are divided by the `dispersion` of the minutes.

    Args:
        minutes: the share of each minute, earliest first.
        last_seconds: length of the last minute, which may not have ended.
        tests: number of classes that are tested.
    """
    hits, runs = sum(minute.hits for minute in minutes), sum(minute.runs for minute in minutes)
    best: tuple[float, int, Share, Share] | None = None
    before_hits = before_runs = 0.0
    for number, minute in enumerate(minutes):
        before, after = Share(before_hits, before_runs), Share(hits - before_hits, runs - before_runs)
        before_hits, before_runs = before_hits + minute.hits, before_runs + minute.runs
        if before.runs and minute.runs and after.hits >= MIN_HITS and after.value > before.value:
            likelihood = _likelihood(before) + _likelihood(after)
            if best is None or likelihood > best[0]:
                best = likelihood, number, before, after
    if best is None:
        return None
    _, number, before, after = best
    earlier = minutes[:number]
    was = median([minute.value for minute in earlier if minute.runs])
    factor = dispersion(earlier, minutes[number:])
    fewer_before, fewer_after = before.scaled(factor), after.scaled(factor)
    is_step = (
        (len(minutes) - number - 1) * _MINUTE + last_seconds >= MIN_STEP_SECONDS
        and after.value - max(was, before.value) >= MIN_DIFFERENCE
        and fewer_after.interval()[0] > fewer_before.interval()[1]
        and exceeds(fewer_after, fewer_before) <= LEVEL / (max(1, tests) * len(minutes))
    )
    return ShareStep(number, before, after, was) if is_step else None


def _likelihood(share: Share) -> float:
    """Return the logarithm of the maximum likelihood."""
    hits, misses = share.hits, share.runs - share.hits
    return sum(count * math.log(count / share.runs) for count in (hits, misses) if count)
