"""The host names that pages accept, and whether a change was sent by our own pages."""

from __future__ import annotations

import pytest

from offsider.web.origins import host_of, is_foreign, is_known, is_loopback, is_same_origin
from offsider.web.request import Request


@pytest.mark.parametrize(
    "header",
    ["localhost", "LOCALHOST:7433", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]:7433", "::1", "jobs.localhost"],
)
def test_all_names_of_loopback_are_allowed(header):
    assert is_known(header, [])


@pytest.mark.parametrize(
    "header",
    ["", "evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "evil.com:7433", "192.168.0.1", "127.0.0.1@evil.com",
     "[::ffff:10.0.0.1]", "[::1].evil.com", "[::1]evil.com",
     "[::1]:x", "0.0.0.0", "2130706433", "localhost:1:2", "evil.localhost.com"],
)  # fmt: skip
def test_other_names_are_refused(header):
    assert not is_known(header, [])


def test_a_name_can_be_allowed_with_or_without_its_port():
    assert is_known("jobs.example.com:8443", ["Jobs.Example.com"])
    assert is_known("jobs.example.com:8443", ["jobs.example.com:8443"])
    assert not is_known("jobs.example.com:9", ["jobs.example.com:8443"])
    assert not is_known("x.jobs.example.com", ["jobs.example.com"])
    assert is_known("anything", ["*"])


def test_the_host_is_separated_from_its_port():
    assert host_of("A.b:80") == "a.b"
    assert host_of("[::1]:80") == "::1"
    assert is_loopback("[::1]")
    assert is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("example.com")


@pytest.mark.parametrize(
    "headers,expected",
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site", "authorization": "Basic x"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://jobs:80", "host": "jobs"}, False),
        ({"origin": "http://jobs:7433", "host": "jobs:7433"}, True),
        ({"origin": "https://jobs.example.com", "host": "jobs.example.com"}, True),
        ({"origin": "https://jobs.example.com:443", "host": "jobs.example.com"}, True),
        ({"origin": "http://jobs:7434", "host": "jobs:7433"}, False),
        ({"origin": "http://evil.com", "host": "jobs:7433", "authorization": "Basic x"}, False),
        ({"origin": "null", "host": "jobs"}, False),
        ({"origin": "http://[bad", "host": "jobs"}, False),
        ({"origin": "http://jobs", "host": "jobs:bad"}, False),
        ({"origin": "file://", "host": ""}, False),
        ({"host": "jobs"}, False),
        ({"host": "jobs", "authorization": "Bearer x"}, True),
    ],
)
def test_only_our_pages_and_authorized_programs_can_change_anything(headers, expected):
    assert is_same_origin(Request("POST", "/", headers=headers)) is expected


@pytest.mark.parametrize(
    "headers,expected",
    [
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "same-site"}, True),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"origin": "http://jobs:7433", "host": "jobs:7433"}, False),
        ({"origin": "http://evil.com", "host": "jobs:7433"}, True),
        ({"origin": "null", "host": "jobs"}, True),
        ({"host": "jobs"}, False),
    ],
)
def test_only_browser_headers_make_a_request_foreign(headers, expected):
    assert is_foreign(Request("GET", "/", headers=headers)) is expected
