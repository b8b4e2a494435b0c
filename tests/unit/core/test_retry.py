"""`Retry`: the delay that a job asks for, or that of a response."""

from __future__ import annotations

import pickle
from datetime import timedelta
from decimal import Decimal
from email.utils import formatdate
from time import time
from types import SimpleNamespace

import pytest

from offsider import Retry


def response(header: str | None = None, **more: object) -> SimpleNamespace:
    return SimpleNamespace(headers={} if header is None else {"Retry-After": header}, **more)


@pytest.mark.parametrize(
    "after, seconds", [(30, 30.0), (timedelta(minutes=2), 120.0), (Decimal("1.5"), 1.5), (0, 0.0), (None, None)]
)
def test_the_delay_is_a_number_of_seconds_or_a_timedelta(after, seconds):
    assert Retry(after).after_seconds == seconds


@pytest.mark.parametrize("after", [-1, 1e10, float("nan"), timedelta(days=-1)])
def test_an_impossible_delay_is_an_error(after):
    with pytest.raises(ValueError, match="the delay of Retry"):
        Retry(after)


def test_the_message_has_delay_and_reason():
    assert [str(each) for each in (Retry(), Retry(5), Retry(reason="down"), Retry(5, reason="down"))] == [
        "retry",
        "retry after 5 s",
        "down",
        "retry after 5 s: down",
    ]
    assert pickle.loads(pickle.dumps(Retry(5, reason="down"))).after_seconds == 5


@pytest.mark.parametrize(
    "header, seconds", [("120", 120.0), (" 7 ", 7.0), ("99999999999999", 1e9), ("soon", None), ("", None), (None, None)]
)
def test_the_header_of_a_response_is_the_delay(header, seconds):
    assert Retry.after_header(response(header)).after_seconds == seconds


def test_the_header_may_be_a_date():
    assert 50 < Retry.after_header(response(formatdate(time() + 60, usegmt=True))).after_seconds <= 60
    assert Retry.after_header(response(formatdate(time() - 60, usegmt=True))).after_seconds == 0


def test_the_status_is_the_reason():
    assert str(Retry.after_header(response("3", status_code=429))) == "retry after 3 s: status 429"
    assert str(Retry.after_header(response("3", status_code=429), reason="shop")) == "retry after 3 s: shop"
