"""Each kind of limiter, at its limit and below."""

from __future__ import annotations

import asyncio
import logging
import pickle
from datetime import timedelta

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, OverLimit
from offsider.ext.limiters import Limiter, Limiters, LimiterSet


def takes(limiter, **amount):
    """Whether the limiter permits a block."""
    try:
        with limiter.within_limit(**amount):
            return True
    except OverLimit:
        return False


def granted(limiter, count=100, **amount):
    return sum(takes(limiter, **amount) for _ in range(count))


# ------------------------------------------------------------------------------------ rates


def test_a_window_of_many_uses_takes_a_bounded_amount_of_memory(config, time, raw_redis):
    limiter = Limiter.window("api", 1_000_000, 10, wait_timeout=0, config=config)
    for _ in range(1050):
        assert takes(limiter, used=7)
        time.advance(0.009)
    assert raw_redis.llen("offsider:limiter:{window:api}:uses") <= 1001
    assert limiter.used() == 7 * 1050
    time.advance(10.01)
    assert limiter.used() == 0


@pytest.mark.parametrize("kind", ["bucket", "window", "leaky"])
def test_a_block_waits_for_its_turn_with_one_pause(config, time, kind):
    limiter = getattr(Limiter, kind)("api", 1, "second", config=config)
    assert takes(limiter)
    assert takes(limiter)
    assert len(time.pauses) == 1
    assert 1.0 <= time.pauses[0] < 1.01
    state = LimiterSet(config).find(kind, "api")
    assert (state.allowed, state.immediate, state.waited, state.overages) == (2, 1, 1, 0)
    assert state.wait_seconds == pytest.approx(time.pauses[0], abs=1e-4)


@pytest.mark.parametrize("kind", ["bucket", "window", "leaky"])
def test_a_wait_longer_than_the_timeout_is_refused_at_once(config, time, kind):
    limiter = getattr(Limiter, kind)("api", 2, "minute", wait_timeout=5, config=config)
    granted(limiter, 2)
    with pytest.raises(OverLimit, match=f"{kind} limiter 'api' is at its limit; try again in ") as refused:
        limiter.within_limit(used=2).__enter__()
    assert time.pauses == []
    assert refused.value.limiter is limiter
    assert refused.value.remaining == 0
    assert refused.value.retry_in_seconds == pytest.approx(60, abs=0.1)
    assert LimiterSet(config).find(kind, "api").overages == 1


def test_a_clock_that_steps_back_blocks_nothing_for_longer_than_an_interval(config, time):
    limiters = [
        getattr(Limiter, kind)("api", 2, "second", wait_timeout=0, config=config)
        for kind in ("bucket", "window", "leaky")
    ]
    assert [granted(limiter, 3) for limiter in limiters] == [2, 2, 2]
    time._us -= 500_000
    time.advance(0)
    for limiter in limiters:
        granted(limiter, 3)
    time.advance(1.5)
    assert [granted(limiter, 3) for limiter in limiters] == [2, 2, 2]


# ------------------------------------------------------------------------------------ points


def test_points_are_estimated_and_corrected(config, time):
    limiter = Limiter.points("shop", 1000, 50, config=config)
    with limiter.within_limit(estimate=200) as use:
        use.points_used(500)
    assert limiter.remaining() == 500
    with limiter.within_limit(estimate=200) as use:
        use.points_used(10)
    assert limiter.remaining() == 490
    with limiter.within_limit(estimate=90):
        pass
    assert limiter.remaining() == 400
    time.advance(4)
    assert limiter.remaining() == 600


def test_too_few_points_are_refused_at_once(config, time):
    limiter = Limiter.points("shop", 1000, 50, config=config)
    with limiter.within_limit(estimate=100) as use:
        use.points_used(1200)
    with pytest.raises(OverLimit) as refused:
        limiter.within_limit(estimate=300).__enter__()
    assert refused.value.retry_in_seconds == pytest.approx(10)
    assert time.pauses == []
    time.advance(10)
    assert takes(limiter, estimate=300)


def test_points_of_a_failed_block_are_corrected_too(config, time):
    limiter = Limiter.points("shop", 1000, 50, config=config)
    use = limiter.within_limit(estimate=100)
    with pytest.raises(KeyError), use:
        raise KeyError(use.points_used(700))
    assert limiter.remaining() == 300


# ------------------------------------------------------------------------------------ concurrent


def test_a_concurrent_limiter_has_that_many_slots(config, time):
    limiter = Limiter.concurrent("erp", 2, wait_timeout=0, config=config)
    with limiter.within_limit(), limiter.within_limit():
        assert not takes(limiter)
        assert limiter.used() == 2
        time.advance(3)
    assert takes(limiter)
    state = LimiterSet(config).find("concurrent", "erp")
    assert (state.used, state.allowed, state.overages, state.held_seconds) == (0, 3, 1, 6.0)


def test_a_block_that_raises_frees_its_slot(config, time):
    limiter = Limiter.concurrent("erp", 1, wait_timeout=0, config=config)
    with pytest.raises(KeyError), limiter.within_limit():
        raise KeyError
    assert takes(limiter)


def test_a_waiting_block_polls_less_often_and_times_out(config, time):
    limiter = Limiter.concurrent("erp", 1, wait_timeout=2, config=config)
    with limiter.within_limit():
        assert not takes(limiter)
    assert sum(time.pauses) == pytest.approx(2)
    assert 80 < len(time.pauses) < 180
    assert all(pause <= 0.025 for pause in time.pauses)
    assert LimiterSet(config).find("concurrent", "erp").overages == 1


def test_a_waiting_block_gets_the_next_free_slot(config, time):
    limiter = Limiter.concurrent("erp", 1, config=config)
    holder = limiter.within_limit()
    holder.__enter__()
    time.then = lambda: holder.__exit__(None, None, None)
    assert takes(limiter)
    assert len(time.pauses) == 1
    assert LimiterSet(config).find("concurrent", "erp").waited == 1


def test_the_slot_of_a_dead_holder_is_reclaimed_after_its_lock_timeout(config, time):
    limiter = Limiter.concurrent("erp", 1, wait_timeout=5, lock_timeout=30, config=config)
    limiter.within_limit().__enter__()
    assert not takes(limiter)
    time.advance(24)
    assert takes(limiter)
    state = LimiterSet(config).find("concurrent", "erp")
    assert (state.reclaimed, state.waited, state.overages) == (1, 1, 1)


def test_a_block_that_outlives_its_lock_timeout_is_logged(config, time, caplog):
    limiter = Limiter.concurrent("erp", 1, lock_timeout=30, wait_timeout=0, config=config)
    with caplog.at_level(logging.WARNING, "offsider"), limiter.within_limit():
        time.advance(31)
        with limiter.within_limit():
            pass
    (line,) = caplog.messages
    assert line.startswith("concurrent limiter 'erp': a block ran longer than lock_timeout (30 s)")


# ------------------------------------------------------------------------------------ unlimited, async, server


def test_an_unlimited_limiter_accepts_what_all_others_do_and_needs_no_server():
    limiter = Limiter.unlimited("shop", 1000, 50, wait_timeout=3)
    for amounts in ({}, {"used": 3}, {"estimate": 10}):
        with limiter.within_limit(**amounts) as use:
            use.points_used(7)
    assert (limiter.used(), limiter.reset()) == (0, False)


def test_all_kinds_work_on_an_event_loop(config, time):
    async def main():
        slots = Limiter.concurrent("erp", 1, wait_timeout=0.5, config=config)
        async with slots.within_limit():
            with pytest.raises(OverLimit):
                async with slots.within_limit():
                    pass
        async with slots.within_limit():
            pass
        rate = Limiter.window("api", 1, "second", config=config)
        async with rate.within_limit():
            pass
        async with rate.within_limit():
            pass
        points = Limiter.points("shop", 100, 1, config=config)
        async with points.within_limit(estimate=5) as use:
            use.points_used(50)
        async with Limiter.unlimited().within_limit():
            pass
        return points.remaining()

    assert asyncio.run(main()) == 50
    assert sum(time.pauses) == pytest.approx(1.5, abs=0.01)


def test_both_forms_report_a_server_that_fails_at_the_end_of_a_block(config, time, raw_redis):
    limiter = Limiter.concurrent("erp", 2, config=config)
    reported = []
    config.error_handlers.append(lambda error, context: reported.append(context["context"]))
    ran = []
    with limiter.within_limit():
        raw_redis.delete("offsider:limiter:{concurrent:erp}:uses")
        raw_redis.set("offsider:limiter:{concurrent:erp}:uses", "a string")
        ran.append("sync")

    async def main():
        raw_redis.delete("offsider:limiter:{concurrent:erp}:uses")
        async with limiter.within_limit():
            raw_redis.delete("offsider:limiter:{concurrent:erp}:uses")
            raw_redis.set("offsider:limiter:{concurrent:erp}:uses", "a string")
            ran.append("async")
        with pytest.raises(Exception, match=r"WRONGTYPE|wrong kind"):
            await limiter.within_limit().__aenter__()

    asyncio.run(main())
    assert ran == ["sync", "async"]
    assert reported == ["ending a block of the concurrent limiter 'erp'"] * 2


def test_a_limiter_is_on_the_server_that_the_extension_names(make_config, make_server, raw_redis):
    other = make_config()
    other.add_server("limits", url=make_server().url)
    other.use(Limiters(server="limits"))
    assert takes(Limiter.bucket("api", 3, "hour", config=other))
    assert raw_redis.keys() == []
    assert [state.name for state in LimiterSet(other)] == ["api"]
    Installation.of(other, "limits").close()


# ------------------------------------------------------------------------------------ keys


def test_all_keys_of_a_limiter_have_its_hash_tag_and_expire(config, time, raw_redis):
    for limiter, amount in (
        (Limiter.concurrent("a", 1, config=config), {}),
        (Limiter.bucket("a", 5, "hour", config=config, ttl=timedelta(days=2)), {}),
        (Limiter.window("a", 5, "hour", config=config), {}),
        (Limiter.leaky("a", 5, "hour", config=config), {}),
        (Limiter.points("a", 5, 1, config=config), {"estimate": 1}),
    ):
        with limiter.within_limit(**amount):
            tag = f"{{{limiter.kind}:a}}"
            keys = [key for key in raw_redis.keys("offsider:limiter:*") if limiter.kind in key.decode()]
            assert keys
            days = 2 if limiter.kind == "bucket" else 90
            for key in keys:
                assert tag in key.decode()
                assert raw_redis.pttl(key) == pytest.approx(days * 86_400_000, abs=60_000)
    assert raw_redis.zcard("offsider:limiters") == 5


def test_the_names_of_expired_limiters_are_forgotten(config, time, raw_redis):
    takes(Limiter.bucket("old", 1, "hour", config=config))
    time.advance(91 * 86_400)
    takes(Limiter.bucket("new", 1, "hour", config=config))
    assert raw_redis.zrange("offsider:limiters", 0, -1) == [b"bucket:new"]


def test_a_definition_is_stored_once_an_hour(config, time, raw_redis):
    limiter = Limiter.bucket("api", 5, "day", config=config)
    takes(limiter)
    raw_redis.delete("offsider:limiters")
    takes(limiter)
    assert not raw_redis.exists("offsider:limiters")
    time.advance(3600)
    takes(limiter)
    assert raw_redis.exists("offsider:limiters")


def test_a_reset_forgets_uses_and_statistics_but_not_the_definition(config, time):
    limiter = Limiter.bucket("api", 1, "day", wait_timeout=0, config=config)
    assert not limiter.reset()
    assert granted(limiter, 2) == 1
    assert limiter.reset()
    state = LimiterSet(config).find("bucket", "api")
    assert (state.used, state.allowed, state.overages, state.limit) == (0, 0, 0, 1)
    assert takes(limiter)


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: Limiter.concurrent("a", 0),
            "concurrent limiter 'a': the limit must be a whole number of at least 1, got 0",
        ),
        (
            lambda: Limiter.bucket("a", -1, "hour"),
            "'a': the limit must be a whole number of at least 1, got -1",
        ),
        (lambda: Limiter.window("a", True, 3), "the limit must be a whole number of at least 1, got True"),
        (lambda: Limiter.leaky("a", 1.5, 3), "the limit must be a whole number of at least 1, got 1.5"),
        (lambda: Limiter.points("a", 0, 3), "the limit must be a whole number of at least 1, got 0"),
        (lambda: Limiter.bucket("a b", 1, "hour"), "'a b': a name must have 1 to 200 letters, digits, _ and -"),
        (lambda: Limiter.bucket("", 1, "hour"), "a name must have 1 to 200 letters"),
        (lambda: Limiter.bucket("a" * 201, 1, "hour"), "a name must have 1 to 200 letters"),
        (lambda: Limiter.bucket(3, 1, "hour"), "a name must have 1 to 200 letters"),
        (lambda: Limiter.bucket("a", 1, "week"), "interval must be one of second, minute, hour, day, got 'week'"),
        (lambda: Limiter.window("a", 1, "week"), "interval must be one of second, minute, hour, day, or seconds, got"),
        (lambda: Limiter.window("a", 1, 0), "interval must be a number of seconds from 0.001 to"),
        (lambda: Limiter.leaky("a", 1, float("nan")), "interval must be a number of seconds from 0.001 to"),
        (lambda: Limiter.points("a", 1, 0), "refill_per_second must be a number of at least 1e-06, got 0"),
        (lambda: Limiter.concurrent("a", 1, wait_timeout=-1), "wait_timeout must be a number of seconds from 0 to"),
        (
            lambda: Limiter.concurrent("a", 1, lock_timeout="x"),
            "lock_timeout must be a number of seconds from 0.001 to",
        ),
        (lambda: Limiter.concurrent("a", 1, ttl=60), "ttl must be a number of seconds from 86400 to"),
        (
            lambda: Limiter.window("a", 1, 1e6, ttl=86_400),
            "ttl is 86400 s; it must not be shorter than interval and lock_timeout",
        ),
        (
            lambda: Limiter.bucket("a", 1, "day", reschedule=-1),
            "reschedule must be a whole number of at least 0, got -1",
        ),
        (lambda: Limiter.window("a", 1, "day", back_off=5), "'back_off' is not an option (did you mean 'backoff'?)"),
        (lambda: Limiter.concurrent("a", 1, policy="ignore"), "'policy' is not an option"),
        (lambda: Limiter.window("a", 1, "day", backoff=5), "backoff must be a function, got 5"),
        (lambda: Limiter.bucket("a", 3, "day").within_limit(used=0), "used must be from 1 to the limit, 3, got 0"),
        (lambda: Limiter.bucket("a", 3, "day").within_limit(used=4), "used must be from 1 to the limit, 3, got 4"),
        (lambda: Limiter.points("a", 3, 1).within_limit(estimate=4), "estimate must be from 1 to the limit, 3, got 4"),
        (lambda: Limiter.unlimited().within_limit().points_used(-1), "points_used expects a number of at least 0"),
    ],
)
def test_bad_input_is_a_clear_error(make, message):
    with pytest.raises(ConfigurationError) as error:
        make()
    assert message in str(error.value)


def test_without_the_extension_the_error_names_it():
    with pytest.raises(ConfigurationError, match=r"bucket limiter 'a' needs the extension Limiters: call config.use"):
        Limiter.bucket("a", 3, "day", config=Config()).within_limit()


def test_a_use_is_for_one_block(config):
    use = Limiter.bucket("api", 5, "day", config=config).within_limit()
    with use:
        pass
    with pytest.raises(ConfigurationError, match="call within_limit\\(\\) again for each block"):
        use.__enter__()


def test_the_error_can_be_pickled():
    error = OverLimit(Limiter.bucket("api", 5, "day"), remaining=3, retry_in_seconds=7)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.remaining, copy.retry_in_seconds) == (str(error), 3, 7)
    assert copy.limiter == "bucket limiter 'api'"
    assert repr(error.limiter) == "Limiter.bucket('api', 5)"
