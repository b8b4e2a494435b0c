"""What a periodic job may be, in code, in files and in Redis."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from offsider import job
from offsider.core.errors import ConfigurationError
from offsider.core.options import JobOptions
from offsider.ext.periodic import Periodic
from offsider.ext.periodic.entry import Entry, from_table, make

pytestmark = pytest.mark.usefixtures("declared")


def test_the_name_defaults_to_that_of_the_job():
    @job(name="shop.clean")
    def clean(days: int) -> None: ...

    assert make(None, "@daily", clean).name == "shop.clean"
    assert make(None, "@daily", "Hard").name == "Hard"
    assert make("nightly", "@daily", clean).job == "shop.clean"


def test_the_pushed_item():
    @job(name="shop.clean", queue="slow")
    def clean(days: int, *, hard: bool = False) -> None: ...

    options = {"retry_for": timedelta(minutes=5), "extra": {"color": "red"}}
    item = make("n", "@daily", clean, {"args": (3,), "kwargs": {"hard": True}, **options}).item(60)
    assert item.pop("class").name == "shop.clean"
    assert item == {
        "args": [3],
        "kwargs": {"hard": True},
        "retry_for": 300,
        "color": "red",
        "periodic": {"name": "n", "at": 60},
    }
    assert make("n", "@daily", "Elsewhere").item(60)["class"] == "Elsewhere"


@pytest.mark.parametrize(
    "more,says",
    [
        ({"name": "a b"}, "letters, digits and"),
        ({"name": 5}, "name expects a string, got 5"),
        ({"job": None}, "name expects a string, got None"),
        ({"job": 7, "name": "n"}, "job expects a string, got 7"),
        ({"job": "", "name": "n"}, "job expects a job or its name"),
        ({"description": 5}, "description expects a string"),
        ({"args": 5}, "args expects a list of arguments, got int$"),
        ({"args": [{1}]}, "a value of type set would change when it is stored as JSON$"),
        ({"kwargs": [1]}, "kwargs expects arguments by name, got list$"),
        ({"grace_seconds": 0}, "grace_seconds expects"),
        ({"grace_seconds": True}, "grace_seconds expects"),
        ({"queue": ""}, "queue must be a string"),
        ({"colour": "red"}, "unknown option 'colour'"),
        ({"cron": "x"}, "expects five fields"),
        ({"tz": "Nowhere"}, "tz expects"),
    ],
)
def test_an_invalid_entry_names_the_job_and_the_error(more, says):
    name, cron, called = (more.pop(key, default) for key, default in [("name", None), ("cron", "@daily"), ("job", "A")])
    with pytest.raises(ConfigurationError, match=rf"periodic job .*{says}"):
        make(name, cron, called, more)


def test_an_entry_survives_its_stored_form():
    entry = make("n", "@daily", "A", {"tz": "Europe/Berlin", "args": [1], "queue": "low", "description": "x"})
    raw = entry.as_json()
    assert Entry.from_json("n", raw) == entry
    assert Entry.from_json("n", raw.replace('"tz"', '"later_key":1,"tz"')) == entry
    assert entry.queue == "low"


@pytest.mark.parametrize("every", [10, 10.0, timedelta(seconds=10)])
def test_an_interval_is_an_expression_and_limits_the_delay(every):
    entry = make("n", None, "A", {"every": every})
    assert (entry.cron, entry.grace_seconds, entry.ticks.words) == ("@every 10s", 10, "Every 10 seconds")
    assert Entry.from_json("n", entry.as_json()) == entry
    assert make("n", None, "A", {"every": 10, "grace_seconds": 5}).grace_seconds == 5
    assert make("n", None, "A", {"every": timedelta(hours=1)}).grace_seconds == 60
    assert from_table("n", {"job": "A", "every": 10}, ("UTC", 60.0)).cron == "@every 10s"


@pytest.mark.parametrize("every", [0, -1, 0.5, 1.5, True, "10", float("nan"), float("inf"), timedelta(0)])
def test_an_interval_that_is_not_whole_seconds_is_refused(every):
    with pytest.raises(ConfigurationError, match=r"periodic job 'n': every must be .*seconds"):
        make("n", None, "A", {"every": every})


@pytest.mark.parametrize("raw", [b"[]", b"{", b"{}", b'{"cron":1,"job":"A"}', b"[" * 100_000])
def test_an_invalid_stored_entry_is_refused(raw):
    with pytest.raises(ConfigurationError, match="periodic job 'n'"):
        Entry.from_json("n", raw)


def test_an_entry_of_a_file():
    table = {"cron": "@daily", "job": "A", "args": [1], "queue": "low", "retry": 3, "tz": "Europe/Berlin"}
    entry = from_table("n", table, ("UTC", 5.0))
    assert (entry.cron, entry.job, entry.tz, entry.grace_seconds) == ("@daily", "A", "Europe/Berlin", 5.0)
    assert (entry.options, entry.source) == ({"queue": "low", "retry": 3}, "file")
    assert from_table("n", {"enabled": False}, ("UTC", 60.0)) is None


OPTIONS = {
    "queue": "low",
    "retry": 3,
    "retry_for": 60,
    "retry_queue": "low",
    "dead": False,
    "backtrace": 5,
    "tags": ["a"],
    "log_level": "warning",
    "expires_in": timedelta(minutes=1),
    "soft_timeout": 5,
    "hard_timeout": 6,
    "server": "bulk",
    "unique_for": timedelta(hours=1),
    "unique_until": "start",
    "profile": "ann",
    "encrypt": True,
    "including_scheduled": False,
    "reschedule_once": True,
    "throttle": timedelta(hours=1),
    "debounce": 5,
    "track": True,
    "keep_result": 60,
    "extra": {"color": "red"},
}
NOT_FOR_TICKS = {"after_commit": True, "wait_replicas": 1}


def test_each_option_of_a_push_is_tried_here():
    assert OPTIONS.keys() | NOT_FOR_TICKS.keys() == set(JobOptions.__annotations__)


@pytest.mark.parametrize("option,value", OPTIONS.items())
def test_a_file_takes_each_option_that_register_takes(option, value):
    in_code = Periodic().register("@daily", "A", **{option: value})
    in_file = from_table("A", {"cron": "@daily", "job": "A", option: value}, ("UTC", 60.0))
    assert replace(in_file, source="code") == in_code
    assert in_code.options or in_code.server


@pytest.mark.parametrize("option,value", NOT_FOR_TICKS.items())
def test_options_of_a_transaction_or_of_replicas_are_refused(option, value):
    with pytest.raises(ConfigurationError, match=f"periodic job 'A': {option} is not supported for periodic jobs"):
        Periodic().register("@daily", "A", **{option: value})


@pytest.mark.parametrize(
    "table,says",
    [
        ({"job": "A", "every": 5, "enabled": "no"}, "enabled must be true or false, got 'no'"),
        ({"cron": "@daily"}, r'job is missing, as in job = "shop\.jobs\.clean_up"'),
        ({"job": "A"}, "it needs either cron"),
        ({"job": "A", "cron": "@daily", "every": 5}, "it needs either cron"),
        ({"job": "A", "every": 0.5}, "every must be a number of seconds from 1 to"),
        ({"cronn": 1}, r"unknown key cronn \(did you mean 'cron'\?\)"),
    ],
)
def test_an_invalid_entry_of_a_file_is_refused(table, says):
    with pytest.raises(ConfigurationError, match=says):
        from_table("n", table, ("UTC", 60.0))
