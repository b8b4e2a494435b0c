"""Options and arguments of the extension of results."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offsider import Config, ConfigurationError, InvalidOptions, job
from offsider.client import Client
from offsider.ext.results import Results
from offsider.ext.results.store import ResultSettings

pytestmark = pytest.mark.usefixtures("declared")


def rules(*, track=False, keep_result_seconds=None):
    return ResultSettings(track, keep_result_seconds, 1.0, 1.0, 1, 1)


@pytest.mark.parametrize(
    "payload, without, tracked, kept",
    [
        ({}, None, 0, 60),
        ({"track": True}, 0, 0, 60),
        ({"track": "arguments"}, 0, 0, 60),
        ({"track": False}, None, None, None),
        ({"keep_result": 5}, 5, 5, 5),
        ({"keep_result": False}, None, 0, None),
        ({"keep_result": False, "track": True}, 0, 0, 0),
        ({"keep_result": "odd", "track": 1}, None, None, None),
    ],
)
def test_options_precede_defaults(payload, without, tracked, kept):
    assert rules().kept_seconds(payload) == without
    assert rules(track=True).kept_seconds(payload) == tracked
    assert rules(keep_result_seconds=60).kept_seconds(payload) == kept


@pytest.mark.parametrize(
    "options",
    [
        {"track": 1},
        {"track": "args"},
        {"keep_result": 0},
        {"keep_result": -1},
        {"keep_result": True},
        {"keep_result": "60"},
        {"keep_result": float("inf")},
        {"keep_result": 10**400},
        {"keep_result": timedelta(days=367)},
    ],
)
def test_invalid_options_are_refused_at_the_push(options):
    config = Config()
    config.use(Results())

    @job(name="refused")
    def refused() -> None: ...

    with pytest.raises(InvalidOptions, match=f"refused: {next(iter(options))}: .*must be"):
        refused.via(Client(config)).using(**options).enqueue()


def test_a_timedelta_is_stored_in_seconds():
    config = Config()
    config.use(Results())
    client = Client(config)

    @job(name="stored", keep_result=timedelta(minutes=1))
    def stored() -> None: ...

    assert client.build({"class": stored, "args": []}).payload["keep_result"] == 60


def test_without_the_extension_the_error_names_it():
    @job(name="needs-results", track=True)
    def needs() -> None: ...

    with pytest.raises(InvalidOptions, match=r"call config\.use\(Results\(\)\), imported from offsider\.ext\.results"):
        needs.via(Client(Config())).enqueue()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"keep_result": 0}, r"Results\(keep_result=…\) must be a positive number"),
        ({"keep_state": False}, r"Results\(keep_state=…\) must be .* got False"),
        ({"keep_waiting": -1}, r"Results\(keep_waiting=…\) must be"),
        ({"result_max_bytes": 0}, r"Results\(result_max_bytes=…\): must be a whole number above 0"),
        ({"finished_per_class": 1.5}, r"Results\(finished_per_class=…\): must be"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        Results(**arguments)
