"""Headers of every response."""

from __future__ import annotations

from offsider.web.request import ALWAYS, CONTENT_SECURITY_POLICY, NO_STORE


def test_the_policy_allows_nothing_inline_and_nothing_external():
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


def test_headers_forbid_sniffing_referrers_and_caching():
    headers = dict((*ALWAYS, NO_STORE))
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "private, no-store"
