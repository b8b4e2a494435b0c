"""The theme is kept in a cookie."""

from __future__ import annotations

import pytest


def kept(answer):
    return [value for name, value in answer.headers if name == "set-cookie"]


def test_a_theme_is_kept_and_shown(ask):
    answer = ask("/change_theme", method="POST", body="theme=dark&back=/busy%3Fonly%3Djobs")
    assert answer.status == 303
    assert dict(answer.headers)["location"] == "/busy?only=jobs"
    cookie = "offsider_theme=dark; Path=/; Max-Age=31536000; SameSite=Lax; HttpOnly"
    assert kept(answer) == [cookie]
    assert b'data-theme="dark"' in ask("/", cookie="offsider_theme=dark").body
    assert b'data-theme="auto"' in ask("/", cookie='offsider_theme="><script>').body


@pytest.mark.parametrize(
    "body",
    ["theme=dark", "theme=pink&back=/", "theme=dark&back=//evil.com", "theme=dark&back=https://evil.com",
     "theme=dark&back=/%5Cevil.com", "theme=dark&back=/%0d%0aSet-Cookie:a=b", "theme=dark&back=/%C3%A4"],
)  # fmt: skip
def test_invalid_preferences_are_refused(ask, body):
    assert ask("/change_theme", method="POST", body=body).status == 400


def test_other_sites_change_no_preference(ask):
    assert ask("/change_theme", method="POST", body="theme=dark&back=/", sec_fetch_site="cross-site").status == 403
