"""The delays between runs are Sidekiq's."""

from random import Random

import pytest

from offsider.core.backoff import jitter, retry_delay


@pytest.mark.parametrize("count, least, most", [(0, 15, 24), (1, 16, 35), (2, 31, 60), (10, 10015, 10124)])
def test_the_delay_is_the_fourth_power_and_fifteen_and_jitter(count, least, most):
    random = Random(1)
    delays = {retry_delay(count, random) for _ in range(3000)}
    assert min(delays) == least
    assert max(delays) == most


def test_jitter_is_whole_seconds_that_grow_with_the_count():
    assert {jitter(0, Random(seed)) for seed in range(500)} == set(range(10))


def test_25_retries_span_about_three_weeks():
    days = sum(retry_delay(count, Random(1)) for count in range(25)) / 86400
    assert 20 < days < 21
