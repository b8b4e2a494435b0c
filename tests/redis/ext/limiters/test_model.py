"""The scripts of limiters against naive models, over random uses and times."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from offsider.config.installation import Installation
from offsider.ext.limiters import store
from offsider.ext.limiters.store import Definition
from offsider.storage.hashes import texts

SECOND_US = 1_000_000
INTERVAL_SECONDS = 10
names = map(str, itertools.count())
#: Microseconds that pass, then the amount of a use.
uses = st.lists(
    st.tuples(
        st.one_of(st.just(0), st.integers(0, 20_000), st.integers(0, 3 * SECOND_US), st.just(10 * SECOND_US)),
        st.integers(1, 6),
    ),
    max_size=60,
)
modelled = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def ask(config, time):
    redis = Installation.of(config).redis

    def ask(definition, amount):
        """Whether the amount was taken, and after how many microseconds it can be."""
        taken, _, wait_us = store.take(redis, definition, amount)
        return taken == store.TAKEN, wait_us

    return ask


def begin(kind, limit):
    return Definition(kind, next(names), limit, interval_seconds=INTERVAL_SECONDS, ttl_seconds=1000.0)


@given(uses, st.integers(6, 12))
@modelled
def test_a_bucket_is_a_sum_for_each_interval(ask, time, uses, limit):
    definition, sums = begin("bucket", limit), {}
    for passed, amount in uses:
        time.advance(passed / SECOND_US)
        bucket = time._us // (INTERVAL_SECONDS * SECOND_US)
        fits = sums.get(bucket, 0) + amount <= limit
        assert ask(definition, amount)[0] == fits
        sums[bucket] = sums.get(bucket, 0) + amount * fits


def in_window(log, now, interval_us):
    return sum(amount for at, amount in log if at + interval_us > now)


@given(uses, st.integers(6, 12))
@modelled
def test_a_window_is_exact_to_a_thousandth_of_its_interval_and_never_above_its_limit(ask, time, uses, limit):
    definition, log, interval_us = begin("window", limit), [], INTERVAL_SECONDS * SECOND_US
    for passed, amount in uses:
        time.advance(passed / SECOND_US)
        taken, wait_us = ask(definition, amount)
        now = time._us
        if taken:
            assert in_window(log, now, interval_us) + amount <= limit
            log.append((now, amount))
        else:
            assert in_window(log, now, interval_us * 1.001) + amount > limit
            # After the wait it fits, and not much earlier.
            assert in_window(log, now + wait_us, interval_us) + amount <= limit
            assert in_window(log, now + wait_us - interval_us // 1000 - 1, interval_us) + amount > limit


@given(uses, st.integers(6, 12), st.sampled_from(["leaky", "points"]))
@modelled
def test_a_leaky_bucket_is_a_level_that_sinks(ask, time, uses, limit, kind):
    definition, level = begin(kind, limit), Fraction(0)
    rate = Fraction(limit, INTERVAL_SECONDS * SECOND_US)
    for passed, amount in uses:
        time.advance(passed / SECOND_US)
        level = max(Fraction(0), level - passed * rate)
        taken, wait_us = ask(definition, amount)
        over = level + amount - limit
        if abs(over) > Fraction(1, 100_000):
            assert taken == (over < 0)
        if taken:
            level += amount
        else:
            assert over - wait_us * rate <= 0.00001
            assert over - (wait_us - 2) * rate > -0.00001


@given(
    st.lists(
        st.tuples(st.sampled_from(["acquire", "release", "pass"]), st.integers(0, 7), st.integers(0, 6)), max_size=80
    ),
    st.integers(1, 3),
)
@modelled
def test_slots_are_a_set_of_holders_that_time_out(config, time, steps, limit):
    redis = Installation.of(config).redis
    definition = Definition("concurrent", next(names), limit, lock_timeout_seconds=10.0, ttl_seconds=1000.0)
    held, tokens, reclaimed = {}, itertools.count(), 0
    for step, which, seconds in steps:
        if step == "pass":
            time.advance(seconds)
        elif step == "acquire":
            late = [holder for holder, ends in held.items() if ends <= time._us]
            reclaimed += len(late)
            held = {holder: ends for holder, ends in held.items() if holder not in late}
            holder = str(next(tokens))
            taken = store.take(redis, definition, 1, holder=holder)[0] == store.TAKEN
            assert taken == (len(held) < limit)
            if taken:
                held[holder] = time._us + 10 * SECOND_US
        else:
            holder = list(held)[which % len(held)] if held else "nobody"
            assert store.release(redis, definition, holder) == (held.pop(holder, None) is not None)
        alive = sum(ends > time._us for ends in held.values())
        assert store.used(redis, definition) == alive <= limit
    fields = dict(texts(redis.call("HGETALL", store.keys_of(redis.keys, definition.member)[0])))
    assert int(fields.get("reclaimed", 0)) == reclaimed
