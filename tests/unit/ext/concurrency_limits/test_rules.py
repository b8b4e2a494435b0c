"""Which limit the code gives a class: by its name, its option, a query, or a share of the fleet."""

from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.concurrency_limits.rules import Rules, check_share, number, rate
from offsider.jobs import registry
from offsider.storage.slots import Rate


@pytest.fixture
def config():
    config = Config()
    config.use(ConcurrencyLimits())
    with registry.isolated():
        yield config


def declare(name="Hard", **declaration):
    @job(name=name, **declaration)
    def hard() -> None: ...

    return hard.declared


def limit(declared, config, limits=None, *, threads=0, default_shares=False):
    return Rules(limits or {}, default_shares=default_shares).limit_of(declared, config, threads)


@pytest.mark.parametrize("value, expected", [(None, 0), (0, 0), (3, 3), (-1, -1), (-7, -1), (1_000_000, 1_000_000)])
def test_a_limit_is_a_number_of_runs_or_none_at_all(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize("value", [True, "3", 2.0, [], 1_000_001])
def test_any_other_value_is_refused(value):
    with pytest.raises(InvalidOptions, match="whole number of concurrent runs"):
        number(value)


@pytest.mark.parametrize(
    "declaration, expected", [({"concurrency_limit": 3}, 3), ({"extra": {"concurrency_limit": 3}}, 3), ({}, 0)]
)
def test_a_job_declares_its_limit_or_has_none(config, declaration, expected):
    assert limit(declare(**declaration), config) == expected


def test_a_job_overrides_the_limit_of_all_jobs(config):
    config.jobs["concurrency_limit"] = 5
    assert limit(declare("A"), config) == 5
    assert limit(declare("B", concurrency_limit=0), config) == 0


def test_a_limit_by_name_overrides_the_option_which_overrides_a_query(config):
    limits = {"urgency=high": 9, "*": 7, "Named": 2, "Old": None}
    assert limit(declare("Named", concurrency_limit=3), config, limits) == 2
    assert limit(declare(("New", "Old"), concurrency_limit=3), config, limits) == 0
    assert limit(declare("Own", concurrency_limit=3, urgency="high"), config, limits) == 3
    assert limit(declare("High", urgency="high"), config, limits) == 9
    assert limit(declare("Other"), config, limits) == 7


def test_a_function_is_called_each_time(config):
    answers = iter([4, None, -2])
    declared, rules = declare(), Rules({"Hard": lambda: next(answers)}, default_shares=False)
    assert [rules.limit_of(declared, config, 0) for _ in range(3)] == [4, 0, -1]


def test_a_function_with_an_invalid_result_is_reported_with_its_job(config):
    with pytest.raises(InvalidOptions, match=r"Hard: concurrency_limit: .* got 'many'"):
        limit(declare(), config, {"Hard": lambda: "many"})


@pytest.mark.parametrize(
    "urgency, threads, expected", [("high", 100, 35), ("low", 10, 3), ("throttled", 1, 1), ("low", 0, 0)]
)
def test_shares_of_the_fleet_are_by_urgency(config, urgency, threads, expected):
    assert limit(declare(urgency=urgency), config, threads=threads, default_shares=True) == expected


@pytest.mark.parametrize("key, value", [("", 3), ("Hard", "3"), ("urgency=quick&", 3), ("urgency==", 1)])
def test_an_invalid_limit_is_refused_at_construction(key, value):
    with pytest.raises(ConfigurationError, match="ConcurrencyLimits"):
        Rules({key: value}, default_shares=False)


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, Rate()),
        ("100/minute", Rate(100, 60_000)),
        ("3/second", Rate(3, 1000)),
        ("9/30", Rate(9, 30_000)),
        ("9/30s", Rate(9, 30_000)),
    ],
)
def test_a_rate_is_a_number_of_starts_in_a_time(value, expected):
    assert rate(value) == expected


@pytest.mark.parametrize("value", ["", "0/minute", "3/0", "3/fortnight", "10001/day", "1/86401", 3, True, "3 / minute"])
def test_any_other_rate_is_refused(value):
    with pytest.raises(InvalidOptions, match="a rate limit must be"):
        rate(value)


def test_an_invalid_rate_is_refused_at_declaration_check(config):
    with pytest.raises(InvalidOptions, match="Hard: rate_limit: a rate limit must be"):
        declare(rate_limit="many").check(config)
    declare(rate_limit=lambda: "3/minute").check(config)


@pytest.mark.parametrize("value", [0, 1.1, True, "0.25"])
def test_a_share_is_a_part_of_all_threads(value):
    with pytest.raises(InvalidOptions, match="a fair share must be above 0 and at most 1"):
        check_share(value)


def test_a_fair_share_limits_each_key_to_its_part_of_the_threads(config):
    rules = Rules({}, default_shares=False)
    fair = declare(key=lambda: 1, fair_share=0.25)
    assert [rules.limit_of(fair, config, threads) for threads in (0, 3, 40)] == [1, 1, 10]
    assert rules.wants_threads([fair])
    assert not rules.wants_threads([declare()])
    limited = declare(key=lambda: 1, fair_share=0.25, concurrency_limit=3)
    assert [rules.limit_of(limited, config, threads) for threads in (4, 40)] == [1, 3]
    assert rules.limit_of(declare(fair_share=0.25, concurrency_limit=-1), config, 40) == -1


def test_a_function_of_the_rate_is_called_each_time_and_checked(config):
    answers = iter(["3/minute", None, "many"])
    rules, declared = Rules({}, default_shares=False), declare(rate_limit=lambda: next(answers))
    assert [rules.rate_of(declared), rules.rate_of(declared)] == [Rate(3, 60_000), Rate()]
    with pytest.raises(InvalidOptions, match="Hard: rate_limit"):
        rules.rate_of(declared)


def test_an_error_of_a_function_is_not_taken_for_an_invalid_limit(config):
    def fails():
        raise ValueError("no plan")

    rules, declared = Rules({"Hard": fails}, default_shares=False), declare(rate_limit=fails)
    for evaluate in (lambda: rules.rate_of(declared), lambda: rules.limit_of(declared, config, 4)):
        with pytest.raises(ValueError, match="no plan") as error:
            evaluate()
        assert type(error.value) is ValueError
