"""What is shown of arguments."""

from __future__ import annotations

from offsider.screens.redaction import HIDDEN, Redacted, redacted, without_copies


def test_without_a_hook_all_arguments_are_shown():
    assert redacted(None, "mail", [1], {"to": "kim"}) == ([1], {"to": "kim"})


def test_a_hook_decides_by_name():
    def hook(name, args, kwargs):
        return ["…" for _ in args], dict.fromkeys(kwargs, name)

    assert redacted(hook, "mail", [1, 2], {"to": "kim"}) == (["…", "…"], {"to": "mail"})


def test_a_failing_hook_hides_all_arguments(caplog):
    def hook(name, args, kwargs):
        raise KeyError("to")

    assert redacted(hook, "mail", ["secret"], {"to": "kim"}) == ([HIDDEN], {})
    assert "redact('mail', …) failed" in caplog.text
    assert "secret" not in caplog.text


PAYLOAD = {"class": "Pay", "args": [1], "unique_args": ["4111"], "lock_args": ["4111"], "cattr": {"user": "4111"}}


def test_copies_of_the_arguments_are_redacted_too():
    hidden = without_copies(lambda name, args, kwargs: (["?"], {}), "Pay", PAYLOAD | {"cattr_1": "4111", "at": 1})
    assert hidden == {
        "class": "Pay",
        "args": [1],
        "unique_args": ["?"],
        "lock_args": ["?"],
        "cattr": "[hidden]",
        "cattr_1": "[hidden]",
        "at": 1,
    }
    assert without_copies(lambda name, args, kwargs: (args, kwargs), "Pay", PAYLOAD) == PAYLOAD
    assert without_copies(None, "Pay", PAYLOAD) == PAYLOAD


def test_a_failing_hook_hides_copies_too():
    shown = without_copies(lambda name, args, kwargs: ([args[1]], {}), "Pay", PAYLOAD)
    assert "4111" not in str(shown)


def test_malformed_jobs_are_hidden():
    assert redacted(lambda name, args, kwargs: (args, kwargs), "", ["4111"], {}) == ([HIDDEN], {})
    assert redacted(None, "", ["4111"], {}) == (["4111"], {})


def test_all_texts_are_hidden_if_thousands_of_texts_are():
    def shown(hidden):
        cards = [f"card-{number}" for number in range(hidden)]
        job = Redacted.of(lambda name, args, kwargs: ([], {}), "Pay", cards, {})
        return job.value(["card-7", "vip", "", 12, 1234, None, {"note": "x"}])

    assert shown(1_000) == [HIDDEN, "vip", "", 12, 1234, None, {"note": "x"}]
    assert shown(1_001) == [HIDDEN, HIDDEN, "", 12, HIDDEN, None, {HIDDEN: HIDDEN}]
