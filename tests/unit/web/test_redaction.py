"""What is shown of arguments."""

from __future__ import annotations

from offsider.web.redaction import HIDDEN, redacted


def test_without_a_hook_all_is_shown():
    assert redacted(None, "mail", [1], {"to": "kim"}) == ([1], {"to": "kim"})


def test_a_hook_decides_by_name():
    def hook(name, args, kwargs):
        return ["…" for _ in args], dict.fromkeys(kwargs, name)

    assert redacted(hook, "mail", [1, 2], {"to": "kim"}) == (["…", "…"], {"to": "mail"})


def test_when_the_hook_fails_nothing_is_shown(caplog):
    def hook(name, args, kwargs):
        raise KeyError("to")

    assert redacted(hook, "mail", ["secret"], {"to": "kim"}) == ([HIDDEN], {})
    assert "redact('mail', …) failed" in caplog.text
    assert "secret" not in caplog.text
