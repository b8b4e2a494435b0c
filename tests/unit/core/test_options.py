"""Options: impossible ones are refused by name, and 0 is not False."""

from datetime import timedelta

import pytest

from offsider.core.errors import InvalidOptions
from offsider.core.options import check_known, check_options, check_queue_name, merge_options, wire_options


@pytest.mark.parametrize("name", ["default", "a", "Mails.2:high-prio_x", " ", "a b", "ä", "a/b", "*", "a,b", "a\n"])
def test_any_name_that_ruby_allows_is_a_queues(name):
    assert check_queue_name(name) == name


@pytest.mark.parametrize("name", ["", "\ud800", None, 7, b"a"])
def test_queue_names_that_are_empty_or_not_strings_are_refused(name):
    with pytest.raises(InvalidOptions, match="queue must be a string of at least one character"):
        check_queue_name(name)


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"retry": -1}, "retry must be True, False or a whole number"),
        ({"retry": 1.5}, "retry must be"),
        ({"retry": "3"}, "retry must be"),
        ({"retry": 3, "retry_for": 60}, "exclude each other"),
        ({"retry": False, "retry_for": 60}, "exclude each other"),
        ({"retry_for": 0}, "positive number of seconds"),
        ({"retry_for": float("nan")}, "positive number of seconds"),
        ({"retry_for": True}, "positive number of seconds"),
        ({"retry_for": timedelta(-1)}, "positive number of seconds"),
        ({"expires_in": 1e300}, "expires_in must be a positive number of seconds (up to 1,000,000,000)"),
        ({"retry_for": timedelta.max}, "retry_for must be a positive number of seconds (up to 1,000,000,000)"),
        ({"hard_timeout": 10**400}, "(up to 1,000,000,000) or a timedelta, got an int of more than 20 digits"),
        ({"hard_timeout": "60"}, "hard_timeout must be a positive number of seconds"),
        ({"soft_timeout": 60, "hard_timeout": 60}, "soft_timeout must be less than hard_timeout, got 60 and 60"),
        ({"soft_timeout": timedelta(hours=1), "hard_timeout": 60}, "less than hard_timeout, got 3600 and 60"),
        ({"queue": ""}, "queue must be a string"),
        ({"retry_queue": ""}, "retry_queue must be a string"),
        ({"server": ""}, "server must be a string that is not empty"),
        ({"dead": 0}, "dead must be true or false"),
        ({"backtrace": -1}, "backtrace must be"),
        ({"tags": "urgent"}, "tags must be a list of strings"),
        ({"tags": [1]}, "tags must be a list of strings"),
        ({"log_level": "loud"}, "log_level must be one of"),
        ({"wait_replicas": -1}, "wait_replicas must be"),
        ({"ques": "low"}, "unknown option 'ques'"),
        ({"retry_im": 1}, "unknown option 'retry_im' (did you mean 'retry_in'?)"),
        ({"colour": 1}, "unknown option 'colour'; known options are "),
        ({"extra": {"unique_for": 5}}, "unknown option 'unique_for' in extra"),
        ({"extra": 5}, "extra must be a mapping"),
        ({"jid": "x"}, "unknown option 'jid'"),
        (
            {"unique_for": 5},
            "unknown option 'unique_for'; its extension is not installed: call config.use(Unique())",
        ),
        ({"extra": {"concurrency_limit": 5}}, "imported from offsider.ext.concurrency_limits, in a"),
        ({"extra": {5: 5}}, "unknown option 5 in extra"),
    ],
    ids=str,
)
def test_impossible_options_are_refused_and_the_job_is_named(options, complaint):
    with pytest.raises(InvalidOptions, match=r"^HardJob: ") as caught:
        check_options(options, job_name="HardJob")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"retry": 0},
        {"retry": False},
        {"retry": True, "retry_for": 60},
        {"retry_for": timedelta(hours=1)},
        {"soft_timeout": 0.5},
        {"soft_timeout": 60, "hard_timeout": timedelta(minutes=2)},
        {"backtrace": 0, "dead": False, "tags": ("a", "b"), "log_level": "WARN", "wait_replicas": 0},
    ],
    ids=str,
)
def test_possible_options_pass(options):
    check_options(options, job_name="HardJob")


def test_options_of_extensions_pass_once_registered():
    check_options(
        {"extra": {"unique_for": 5}, "unique_until": "start"}, job_name="X", known_extra={"unique_for", "unique_until"}
    )


def test_an_extension_cannot_overwrite_core_keys():
    with pytest.raises(InvalidOptions):
        check_options({"extra": {"class": "Other"}}, job_name="X", known_extra={"class"})


def test_unknown_payload_keys_pass():
    check_known({"class": "X", "args": [], "custom": {"x": 1}}, job_name="X")
    with pytest.raises(InvalidOptions, match="X: retry"):
        check_known({"class": "X", "args": [], "retry": -1}, job_name="X")
    with pytest.raises(InvalidOptions, match="X: soft_timeout must be less"):
        check_known({"class": "X", "args": [], "soft_timeout": 2, "hard_timeout": 1}, job_name="X")


def test_only_payload_options_are_stored_and_in_order():
    options = {"retry": 0, "name": "X", "wait_replicas": 2, "tags": ("a",), "retry_for": timedelta(minutes=1)}
    assert list(wire_options(options).items()) == [("retry", 0), ("tags", ["a"]), ("retry_for", 60)]
    assert wire_options({"retry_for": timedelta(milliseconds=1500)}) == {"retry_for": 1.5}
    limits = {"soft_timeout": timedelta(seconds=90), "hard_timeout": timedelta(milliseconds=99_500)}
    assert wire_options(limits) == {"soft_timeout": 90, "hard_timeout": 99.5}
    assert wire_options({"queue": "a", "extra": {"unique_for": 5}}) == {"queue": "a", "unique_for": 5}


def test_a_later_retry_and_retry_for_cancel_each_other():
    defaults = {"retry": True, "queue": "default"}
    assert merge_options(defaults, {"retry": 5}, {"retry_for": 60})["retry"] is True
    assert "retry_for" not in merge_options(defaults, {"retry_for": 60}, {"retry": 0})
    assert list(merge_options(defaults, {"tags": []}, {"queue": "a"})) == ["retry", "queue", "tags"]
