"""Jobs of Rails are shown as their authors wrote them, as Sidekiq's own pages do."""

from __future__ import annotations

import pytest

from offsider.inspector.job_record import display_args, display_class

WRAPPER = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
NEW_WRAPPER = "Sidekiq::ActiveJob::Wrapper"


def active_job(wrapped: str, arguments: list, *, wrapper: str = WRAPPER, reported: bool = True) -> dict:
    stored = {"job_class": wrapped, "job_id": "1b5f", "queue_name": "default", "arguments": arguments}
    return {"class": wrapper, "args": [stored]} | ({"wrapped": wrapped} if reported else {})


def test_a_job_without_a_wrapper_is_displayed_unchanged():
    payload = {"class": "HardJob", "args": [1, {"a": [2]}]}
    assert (display_class(payload), display_args(payload)) == ("HardJob", [1, {"a": [2]}])


@pytest.mark.parametrize("wrapper", [WRAPPER, NEW_WRAPPER])
@pytest.mark.parametrize("reported", [True, False])
def test_an_active_job_is_unwrapped(wrapper, reported):
    arguments = [
        7,
        {"_aj_globalid": "gid://shop/User/42"},
        {"city": "Bern", "_aj_symbol_keys": ["city"]},
        [{"_aj_serialized": "x", "value": "2026-11-21"}],
    ]
    payload = active_job("SendReceiptJob", arguments, wrapper=wrapper, reported=reported)
    assert display_class(payload) == "SendReceiptJob"
    assert display_args(payload) == [7, "gid://shop/User/42", {"city": "Bern"}, [{"value": "2026-11-21"}]]


def test_a_mail_is_its_mailer_and_method():
    params = {"params": {"user": {"_aj_globalid": "gid://shop/User/1"}}, "args": [5], "_aj_ruby2_keywords": ["args"]}
    payload = active_job("ActionMailer::MailDeliveryJob", ["UserMailer", "welcome", "deliver_now", params])
    assert display_class(payload) == "UserMailer#welcome"
    assert display_args(payload) == [{"user": "gid://shop/User/1"}, [5]]


def test_a_mail_of_an_older_rails_is_displayed_alike():
    payload = active_job("ActionMailer::DeliveryJob", ["UserMailer", "welcome", "deliver_now", 1, 2])
    assert (display_class(payload), display_args(payload)) == ("UserMailer#welcome", [1, 2])


@pytest.mark.parametrize(
    "arguments, name, shown",
    [
        ([], "ActionMailer::MailDeliveryJob", []),
        (["M", "m", "deliver_now"], "M#m", []),
        (["M", "m", "deliver_now", "odd"], "M#m", ["odd"]),
    ],
)
def test_an_incomplete_mail_is_displayed_partially(arguments, name, shown):
    payload = active_job("ActionMailer::MailDeliveryJob", arguments)
    assert (display_class(payload), display_args(payload)) == (name, shown)


@pytest.mark.parametrize(
    "args, name",
    [([], WRAPPER), ([7], WRAPPER), (["OldJob"], "OldJob"), ([{"arguments": "none"}], WRAPPER), ([{}], WRAPPER)],
)
def test_an_unknown_wrapper_is_displayed_unchanged(args, name):
    payload = {"class": WRAPPER, "args": args}
    assert (display_class(payload), display_args(payload)) == (name, [])


def test_a_job_may_set_its_display_name():
    assert display_class({"class": "X", "args": [], "display_class": "Invoice for Bern"}) == "Invoice for Bern"
    assert display_class({"class": "X", "args": [], "display_class": 7}) == "X"


@pytest.mark.parametrize("args, shown", [([1, "BAhTOh"], [1, "[encrypted data]"]), ([], [])])
def test_the_encrypted_argument_is_not_shown(args, shown):
    assert display_args({"class": "X", "args": args, "encrypt": True}) == shown


def test_arguments_that_are_nested_ever_so_deeply_are_shown_as_they_are():
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    (shown,) = display_args(active_job("DeepJob", [deep]))
    assert shown is deep
