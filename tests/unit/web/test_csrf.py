"""Whether a change was sent by our own pages."""

from __future__ import annotations

import pytest

from offsider.web.csrf import is_foreign, is_same_origin
from offsider.web.request import Request


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
