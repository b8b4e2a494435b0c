"""The key of a job, by which its limits apply."""

from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.core.errors import InvalidOptions
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.jobs import registry
from offsider.jobs.key import Key, check_key
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


def test_a_key_that_is_not_a_function_is_refused(config):
    with pytest.raises(InvalidOptions, match="Hard: key: a key must be a function"):
        declare(key=3).check(config)
    with pytest.raises(InvalidOptions):
        check_key("account_id")


def test_the_key_is_neither_stored_nor_accepted_without_the_extension(config):
    declared = declare(rate_limit="3/minute", fair_share=0.25, key=lambda account_id: account_id)
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
    assert key(declare(key=function), *args) == expected


def test_a_long_key_is_stored_as_its_digest(config):
    declared = declare(key=lambda account_id: "x" * account_id)
    assert key(declared, 64) == "x" * 64
    assert len(key(declared, 65)) == 32
    assert key(declared, 65) != key(declared, 66)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda account_id: 1 // account_id, "Hard: its key raised ZeroDivisionError"),
        (lambda account_id: [account_id], "Hard: its key must be .* got a value of type list"),
        (lambda account_id: "", "Hard: its key must be"),
    ],
)
def test_a_failing_key_function_is_named(config, function, message):
    with pytest.raises(InvalidOptions, match=message):
        key(declare(key=function), 0)


def test_a_class_without_a_key_function_has_no_key(config):
    assert Key.of(declare()) is None
