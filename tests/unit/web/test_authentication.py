"""User and password."""

from __future__ import annotations

import base64

import pytest

from offsider.web.request import Request
from offsider.web.serving import basic


def asked(header):
    return basic("kim", "sesame:öpen")(Request("GET", "/", headers={"authorization": header}))


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def test_user_and_password_grant_access():
    assert asked(f"Basic {encoded('kim:sesame:öpen')}") == "kim"
    assert asked(f"basic  {encoded('kim:sesame:öpen')}") == "kim"


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !!!", f"Basic {encoded('kim')}",
     f"Basic {encoded('kim:')}", f"Basic {encoded('tim:sesame:öpen')}",
     f"Bearer {encoded('kim:sesame:öpen')}", "Basic " + base64.b64encode(b"\xff\xfe:\x00").decode(), "Basic ü"],
)  # fmt: skip
def test_other_credentials_are_refused(header):
    assert asked(header) is None
