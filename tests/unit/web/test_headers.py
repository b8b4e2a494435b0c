"""Headers of every answer."""

from __future__ import annotations

from offsider.web.headers import ALWAYS, CONTENT_SECURITY_POLICY, NO_STORE


def test_nothing_inline_and_nothing_foreign_is_allowed():
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


def test_browsers_neither_guess_nor_tell_nor_keep():
    headers = dict((*ALWAYS, NO_STORE))
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "private, no-store"
