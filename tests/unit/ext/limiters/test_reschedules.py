"""Jobs that raise over a limit: rescheduled without a failure, up to a number of times."""

from __future__ import annotations

import pytest

from offsider import Config, job, testing
from offsider.core.errors import ConfigurationError, OverLimit
from offsider.core.outcome import Failed, Rescheduled
from offsider.core.payload import decode, encode
from offsider.ext.limiters import Limiter, Limiters, sidekiq_backoff
from offsider.worker.unit_of_work import UnitOfWork
from tests.unit.worker.executors import make_executor, run_job


class TooManyRequests(Exception):
    """The error of an API client."""


pytestmark = pytest.mark.usefixtures("declared")


def outcome(error, overrated=None, **options):
    """The outcome of a job that raises ``error``."""
    config = Config()
    config.use(Limiters(**options))

    @job(name="Call")
    def call() -> None:
        raise error

    payload = {"class": "Call", "args": [], "jid": "a" * 24}
    raw = encode(payload if overrated is None else {**payload, "overrated": overrated})
    return run_job(make_executor(config), UnitOfWork("default", raw)).outcome


def over(**options):
    return OverLimit(Limiter.bucket("api", 5, "day", **options), retry_in_seconds=7)


@pytest.mark.parametrize(
    "overrated, spread", [(None, 2), (1, 4), (2, 8), (11, 4096), (12, 7800), (19, 12_000), (-3, 2), ("x", 2)]
)
def test_a_job_over_a_limit_waits_until_the_limit_is_free_and_longer_each_time(overrated, spread):
    found = outcome(over(), overrated)
    assert isinstance(found, Rescheduled)
    delays = [outcome(over(), overrated).delay_seconds for _ in range(40)]
    assert 7 <= min(delays) <= 7 + spread / 3
    assert 7 + spread / 3 < max(delays) <= 7 + spread
    assert (found.counted, found.counter) == (True, "overrated")
    assert found.reason == "bucket limiter 'api' is at its limit; try again in 7 s"


def test_a_count_that_no_job_reaches_is_no_error():
    assert outcome(over(reschedule=10**9), 10**6).delay_seconds <= 7 + 600 * (10**6 + 1)


def test_slots_become_free_before_their_lock_timeout():
    error = OverLimit(Limiter.concurrent("erp", 1, lock_timeout=3600), retry_in_seconds=3500)
    assert outcome(error).delay_seconds <= 2


@pytest.mark.parametrize("overrated, least", [(None, 301), (1, 601), (19, 6001), (-3, 301), ("x", 301)])
def test_the_delay_of_sidekiq_is_an_option(overrated, least):
    assert least <= outcome(over(), overrated, backoff=sidekiq_backoff).delay_seconds < least + 300
    without_limiter = outcome(TooManyRequests("429"), overrated, errors=(TooManyRequests,))
    assert least <= without_limiter.delay_seconds < least + 300


@pytest.mark.parametrize(
    "overrated, on_limiter, on_extension, fails",
    [(20, {}, {}, True), (19, {}, {}, False), (None, {}, {"reschedule": 0}, True), (None, {"reschedule": 0}, {}, True),
     (24, {"reschedule": 25}, {"reschedule": 3}, False), (25, {"reschedule": 25}, {}, True)],
)  # fmt: skip
def test_after_its_reschedules_the_job_fails_normally(overrated, on_limiter, on_extension, fails):
    error = over(**on_limiter)
    found = outcome(error, overrated, **on_extension)
    assert found == Failed(error) if fails else isinstance(found, Rescheduled)


def test_a_limiter_can_have_a_delay_of_its_own():
    asked = []

    def backoff(limiter, job, error):
        asked.append((limiter and limiter.name, job.payload["overrated"], str(error)))
        return 42

    assert outcome(over(backoff=backoff), 2).delay_seconds == 42
    assert outcome(over(), backoff=backoff).delay_seconds == 42
    assert outcome(TooManyRequests("429"), backoff=backoff, errors=(TooManyRequests,)).delay_seconds == 42
    text = "bucket limiter 'api' is at its limit; try again in 7 s"
    assert asked == [("api", 3, text), ("api", 1, text), (None, 1, "429")]


def test_errors_of_api_clients_can_reschedule_a_job_too():
    error = TooManyRequests("429")
    assert outcome(error) == Failed(error)
    assert isinstance(outcome(error, errors=(TooManyRequests,)), Rescheduled)
    assert outcome(error, 20, errors=(TooManyRequests,)) == Failed(error)


def test_a_drain_counts_reschedules_as_a_worker_does(tmp_path):
    config = Config()
    config.use(Limiters(backoff=lambda limiter, job, error: 60))

    @job(name="Call")
    def call() -> None:
        raise over()

    with testing.fake(config=config) as enqueued, testing.FakeClock(2e9).installed(config):
        call.enqueue()
        enqueued.drain()
        (later,) = enqueued.jobs
        assert later.at == 2e9 + 60
        assert decode(later.raw)["overrated"] == 1
        assert "rescheduled_count" not in decode(later.raw)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"ttl": 3600}, r"Limiters\(ttl=…\) must be a number of seconds from 86400"),
        ({"ttl": float("nan")}, "must be a number of seconds from 86400"),
        ({"reschedule": -1}, r"Limiters\(reschedule=…\) must be a whole number of at least 0, got -1"),
        ({"reschedule": True}, "must be a whole number of at least 0, got True"),
        ({"backoff": 3}, r"Limiters\(backoff=…\) must be a function, got 3"),
        ({"errors": (5,)}, r"Limiters\(errors=…\) must be classes of exceptions, got 5"),
    ],
)
def test_invalid_options_of_the_extension_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        Limiters(**options)
