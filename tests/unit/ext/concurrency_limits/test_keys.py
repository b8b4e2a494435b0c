"""Rate limits and key functions: accepted values, and the key of a job."""

from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.core.errors import InvalidOptions
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.concurrency_limits.keys import Key, check_key, rate, shown_rate
from offsider.ext.concurrency_limits.rules import Rules
from offsider.ext.concurrency_limits.store import class_of, group_name
from offsider.jobs import registry
from offsider.runtime.context import JobContext


@pytest.fixture
def config():
    config = Config()
    config.use(ConcurrencyLimits())
    with registry.isolated():
        yield config


def declare(**declaration):
    @job(name="Hard", **declaration)
    def hard(account_id: int, amount: int = 5, *rest: int) -> None: ...

    return hard.declared


def key(declared, *args):
    return Key.of(declared)(JobContext({"class": "Hard", "args": [*args], "jid": "a" * 24}, "default"))


@pytest.mark.parametrize(
    "value, stored",
    [(None, ""), ("100/minute", "100 60000"), ("3/second", "3 1000"), ("9/30", "9 30000"), ("9/30s", "9 30000")],
)
def test_a_rate_is_a_number_of_starts_in_a_time(value, stored):
    assert rate(value) == stored


@pytest.mark.parametrize("value", ["", "0/minute", "3/0", "3/fortnight", "10001/day", "1/86401", 3, True, "3 / minute"])
def test_any_other_rate_is_refused(value):
    with pytest.raises(InvalidOptions, match="a rate limit must be"):
        rate(value)


def test_a_rate_is_shown_with_its_window():
    assert shown_rate("100 60000") == "100 in 0:01:00"


@pytest.mark.parametrize("option", ["rate_key", "concurrency_key", "fair_by"])
def test_a_key_that_is_not_a_function_is_refused_with_its_option(config, option):
    with pytest.raises(InvalidOptions, match=rf"Hard: {option}: a key must be a function"):
        declare(**{option: 3}).check(config)
    with pytest.raises(InvalidOptions):
        check_key("account_id")


def test_an_invalid_rate_is_refused_at_declaration_check(config):
    with pytest.raises(InvalidOptions, match="Hard: rate_limit: a rate limit must be"):
        declare(rate_limit="many").check(config)
    declare(rate_limit=lambda: "3/minute").check(config)


def test_the_options_are_neither_stored_nor_accepted_by_a_push(config):
    declared = declare(rate_limit="3/minute", rate_key=lambda account_id: account_id)
    assert dict(declared.stored_options(config)) == {}
    with pytest.raises(InvalidOptions, match="its extension is not installed"):
        declared.check(Config())


@pytest.mark.parametrize(
    "function, args, expected",
    [
        (lambda account_id: account_id, (7, 8), "7"),
        (lambda amount: amount, (7,), "5"),
        (lambda amount, account_id: f"{account_id}-{amount}", (7, 8), "7-8"),
        (lambda *args: len(args), (7, 8, 9), "3"),
        (lambda first, second: second, (7, 8), "8"),
        (lambda account_id: None, (7,), ""),
        (str, (7,), "7"),
    ],
)
def test_a_key_function_gets_the_arguments_that_it_names_or_all(config, function, args, expected):
    assert key(declare(rate_key=function), *args) == expected


def test_a_long_key_is_stored_as_its_digest(config):
    declared = declare(fair_by=lambda account_id: "x" * account_id)
    assert key(declared, 64) == "x" * 64
    assert len(key(declared, 65)) == 32
    assert key(declared, 65) != key(declared, 66)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda account_id: 1 // account_id, "Hard: rate_key raised ZeroDivisionError"),
        (lambda account_id: [account_id], "Hard: rate_key must return .* got a value of type list"),
        (lambda account_id: "", "Hard: rate_key must return"),
    ],
)
def test_a_failing_key_function_is_named(config, function, message):
    with pytest.raises(InvalidOptions, match=message):
        key(declare(rate_key=function), 0)


def test_two_key_functions_exclude_each_other(config):
    with pytest.raises(InvalidOptions, match="Hard: concurrency_key and rate_key exclude each other"):
        key(declare(rate_key=lambda account_id: 1, concurrency_key=lambda account_id: 1), 7)


def test_a_class_without_a_key_function_has_no_key(config):
    assert Key.of(declare()) is None


def test_each_key_of_fair_by_has_a_quarter_of_the_threads(config):
    rules = Rules({}, default_shares=False)
    fair = declare(fair_by=lambda account_id: account_id)
    assert [rules.limit_of(fair, config, threads) for threads in (0, 3, 40)] == [1, 1, 10]
    assert rules.wants_threads([fair])
    assert not rules.wants_threads([declare()])
    limited = declare(fair_by=lambda account_id: account_id, concurrency_limit=3)
    assert rules.limit_of(limited, config, 40) == 3


def test_a_function_of_the_rate_is_called_each_time_and_checked(config):
    answers = iter(["3/minute", None, "many"])
    rules, declared = Rules({}, default_shares=False), declare(rate_limit=lambda: next(answers))
    assert [rules.rate_of(declared), rules.rate_of(declared)] == ["3 60000", ""]
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


def test_a_group_is_named_after_its_class_and_key():
    assert [group_name("a.B", ""), group_name("a.B", "7[x]")] == ["a.B", "a.B[7[x]]"]
    assert [class_of("a.B"), class_of("a.B[7[x]]")] == ["a.B", "a.B"]
