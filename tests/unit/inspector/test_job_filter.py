"""Which jobs are meant, and which need not even be decoded."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from offsider.core.compression import compress
from offsider.core.errors import InvalidOptions
from offsider.core.payload import decode, encode
from offsider.inspector import JobFilter, JobRecord
from offsider.storage.error_groups import group_of

JOB = {
    "class": "HardJob",
    "args": [42, "spam@example.com", {"deep": [True, None, 1.5, "Zürich/Ost"]}],
    "kwargs": {"colour": "blue"},
    "jid": "f9b8e2a1c3d4e5f60718293a",
    "tags": ["vip", 7],
    "error_class": "Net::ReadTimeout",
    "error_message": 'no "answer" in time',
    "error_frame": "mail.rb:send",
    "meta.caller_id": "web/OrdersController#create",
}


def record(**changed) -> JobRecord:
    return JobRecord(json.dumps(JOB | changed, ensure_ascii=False).encode())


@pytest.mark.parametrize(
    "wanted",
    [
        JobFilter(),
        JobFilter(text="f9b8e2a1"),
        JobFilter(text="HardJob"),
        JobFilter(text="Zürich"),
        JobFilter(text='"kwargs"'),
        JobFilter(name="HardJob"),
        JobFilter(argument="42"),
        JobFilter(argument=42),
        JobFilter(argument=True),
        JobFilter(argument=1.5),
        JobFilter(argument="spam@"),
        JobFilter(argument="true"),
        JobFilter(argument="null"),
        JobFilter(argument="1.5"),
        JobFilter(argument="Zürich/"),
        JobFilter(argument="blue"),
        JobFilter(error="Timeout"),
        JobFilter(error='no "answer"'),
        JobFilter(group=group_of("HardJob", "Net::ReadTimeout", "mail.rb:send")),
        JobFilter(tag="vip"),
        JobFilter(caller="web/OrdersController#create"),
        JobFilter(name="HardJob", argument="42", tag="vip", error="Net"),
    ],
    ids=str,
)
def test_this_job_is_meant(wanted):
    assert wanted.matches(record())


@pytest.mark.parametrize(
    "wanted",
    [
        JobFilter(group=group_of("HardJob", "Net::ReadTimeout", "mail.rb:open")),
        JobFilter(group=group_of("EasyJob", "Net::ReadTimeout", "mail.rb:send")),
        JobFilter(text="hardjob"),
        JobFilter(text="*"),
        JobFilter(name="Hard"),
        JobFilter(argument="4"),
        JobFilter(argument=4),
        JobFilter(argument=0),
        JobFilter(argument=False),
        JobFilter(argument="1.50"),
        JobFilter(argument="HardJob"),
        JobFilter(error="spam"),
        JobFilter(tag="vi"),
        JobFilter(tag="7"),
        JobFilter(caller="web"),
        JobFilter(name="HardJob", tag="other"),
        JobFilter(tenant="acme"),
        JobFilter(jid="5"),
        JobFilter(queue="other"),
        JobFilter(created=(0.0, math.inf)),
        JobFilter(failed=(0.0, math.inf)),
        JobFilter(died=(0.0, math.inf)),
        JobFilter(due=(0.0, math.inf)),
    ],
    ids=str,
)
def test_this_job_is_not_meant(wanted):
    assert not wanted.matches(record())


def test_numbers_match_in_any_notation():
    assert JobFilter(argument="1000.0").matches(JobRecord(b'{"class":"X","args":[1e3]}'))


def test_text_is_found_in_escaped_form():
    escaped = JobRecord(json.dumps(JOB, ensure_ascii=True).replace("/", "\\/").encode())
    assert JobFilter(text="Zürich/Ost").matches(escaped)
    assert JobFilter(argument="Zürich/Ost").matches(escaped)
    assert not JobFilter(text="Zürich-Ost").matches(escaped)


@pytest.fixture
def mail() -> JobRecord:
    arguments = ["UserMailer", "welcome", "deliver_now", {"args": []}]
    wrapped = {"class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "ActionMailer::MailDeliveryJob"}
    return record(**wrapped, args=[{"arguments": arguments}])


def test_the_class_inside_a_wrapper_is_meant_by_its_own_name(mail):
    assert JobFilter(name="UserMailer#welcome").matches(mail)
    assert JobFilter(name="Sidekiq::ActiveJob::Wrapper").matches(mail)
    assert not JobFilter(name="UserMailer").matches(mail)


@pytest.mark.parametrize("name", ["Sidekiq::ActiveJob::Wrapper", "ActionMailer::MailDeliveryJob", "UserMailer#welcome"])
def test_the_group_of_an_error_is_found_by_any_name_of_its_job(mail, name):
    assert JobFilter(group=group_of(name, "Net::ReadTimeout", "mail.rb:send")).matches(mail)


def test_a_failure_is_found_by_its_own_time_not_by_that_of_the_push():
    job = record(created_at=100.0, failed_at=200.0, retried_at=300.0)
    assert JobFilter(failed=(300.0, 301.0)).matches(job)
    assert not JobFilter(failed=(200.0, 300.0)).matches(job)
    assert JobFilter(failed=(200.0, 201.0)).matches(record(failed_at=200.0))
    assert JobFilter(created=(100.0, 101.0)).matches(job)
    assert not JobFilter(created=(101.0, math.inf)).matches(job)


@pytest.mark.parametrize("tenant", [{"meta.tenant": "7"}, {"meta.project": 7}])
def test_a_tenant_is_text_or_a_number(tenant):
    assert JobFilter(tenant="7").matches(record(**tenant))


def test_invalid_bytes_are_found_only_by_text():
    broken = JobRecord(b"\xff HardJob")
    assert JobFilter().matches(broken)
    assert JobFilter(text="HardJob").matches(broken)
    assert not JobFilter(text="HärdJob").matches(broken)
    assert not JobFilter(name="HardJob").matches(broken)
    assert not JobFilter(created=(0.0, math.inf)).matches(broken)


@pytest.mark.parametrize(
    "wish, message",
    [
        ({"argument": [1]}, "argument is an array, expected a string, a finite number or a boolean"),
        ({"argument": None}, "argument is null, expected a string, a finite number or a boolean"),
        ({"argument": float("nan")}, "argument is a number, expected a string, a finite number or a boolean"),
        ({"argument": b"pa55"}, "argument is bytes, expected a string, a finite number or a boolean"),
        ({"tag": 7}, "tag is an integer, expected a string"),
        ({"failed": "60"}, r"failed is a string, expected \(since, until\) in epoch seconds"),
        ({"due": (1.0, float("nan"))}, r"due is .*, expected \(since, until\) in epoch seconds"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_field(wish, message):
    with pytest.raises(InvalidOptions, match=f"^JobFilter: {message}$"):
        JobFilter(**wish)


def test_only_a_filter_without_any_wish_is_empty():
    assert JobFilter().empty
    assert not JobFilter(tag="vip").empty
    assert not JobFilter(argument=0).empty
    assert not JobFilter(failed=(0.0, math.inf)).empty


@pytest.mark.parametrize(
    "wanted, needle",
    [
        (JobFilter(), ""),
        (JobFilter(text="abc/Zürich"), "rich"),
        (JobFilter(name="UserMailer#welcome_all_of_them"), "UserMailer"),
        (JobFilter(name="A", argument="spam@example.com"), "A"),
        (JobFilter(argument="-42"), ""),
        (JobFilter(text="é"), ""),
        (JobFilter(failed=(5.0, 6.0)), ""),
    ],
)
def test_the_required_bytes_are_derived_from_the_filter(wanted, needle):
    assert wanted.needle == needle


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(st.lists(VALUES, max_size=3), st.text(max_size=8), st.booleans(), st.data())
def test_passing_over_bytes_passes_over_no_job_that_is_meant(args, word, ascii_only, data):
    """Text that matches the decoded job must be found in its bytes, however the writer escaped it."""
    leaf = data.draw(st.sampled_from([*(arg for arg in args if not isinstance(arg, list | dict)), word]))
    argument = leaf if isinstance(leaf, str) else json.dumps(leaf)
    stored = json.dumps({"class": "X", "args": [*args, word], "tags": [word]}, ensure_ascii=ascii_only)
    try:
        raw = stored.replace("/", "\\/").encode()
    except UnicodeEncodeError:
        return
    if JobRecord(raw).malformed:
        return
    assert JobFilter(argument=argument).matches(JobRecord(raw))
    assert JobFilter(tag=word).matches(JobRecord(raw))


def test_an_argument_is_found_in_compressed_arguments_as_well():
    packed = JobRecord(encode(compress(decode(record().raw))))
    assert b"spam" not in packed.raw
    assert JobFilter(argument="spam@example.com").matches(packed)
    assert JobFilter(argument="blue").matches(packed)
    assert JobFilter(name="HardJob", argument="42").matches(packed)
    assert not JobFilter(argument="ham@example.com").matches(packed)
    assert not JobFilter(name="SoftJob", argument="42").matches(packed)


def test_text_is_searched_in_the_stored_bytes_not_in_compressed_arguments():
    packed = JobRecord(encode(compress(decode(record().raw))))
    assert JobFilter(text="answer").matches(packed)
    assert not JobFilter(text="spam@example.com").matches(packed)


def test_a_number_fits_no_string_and_zero_is_a_filter():
    assert JobFilter(argument="7").matches(record(args=["7"]))
    assert not JobFilter(argument=7).matches(record(args=["7"]))
    assert JobFilter(argument=0).matches(record(args=[0]))
