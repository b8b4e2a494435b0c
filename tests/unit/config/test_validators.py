"""Kinds of values: accepted values, their form, and the parsing of text."""

from __future__ import annotations

import os

import pytest

from offsider.config import settings

#: Kind, accepted values with their final form, and refused values.
KINDS = {
    "whole": (settings.whole(1), [(3, 3)], [0, True, 1.0, "1"]),
    "whole within bounds": (settings.whole(6, 8), [(7, 7)], [True, 9]),
    "whole or zero": (settings.whole(1000, or_zero=True), [(0, 0), (1000, 1000)], [999, False]),
    "seconds": (settings.seconds(), [(3, 3.0)], [-1, float("nan"), float("inf"), True]),
    "seconds above": (settings.seconds(above=True), [(0.5, 0.5)], [0]),
    "share": (settings.SHARE, [(0.995, 0.995)], [0, 1, True, "0.5", float("nan")]),
    "choice": (settings.choice("a", "b", synonyms={"c": "a"}), [("C", "a")], ["d", 1]),
    "text": (settings.text("x+"), [("xx", "xx")], ["y", 1]),
    "any text": (settings.text(), [("", "")], ["caf\udce9"]),
    "names": (settings.names(), [("one", ("one",)), ([" one ", "two"], ("one", "two"))], [[1], [""], 1]),
    "flag": (settings.FLAG, [(True, True)], [1]),
    "queues": (settings.QUEUES, [(["a", ["b", 2]], ("a", "b,2")), ("a", ("a",))], [["a", "a"], 1, ["a,b"]]),
    "address": (
        settings.ADDRESS,
        [
            ("127.0.0.1:7433", "127.0.0.1:7433"),
            ("[::1]:7433", "[::1]:7433"),
            (7433, "127.0.0.1:7433"),
            ("7433", "127.0.0.1:7433"),
            ("", ""),
        ],
        ["localhost", "localhost:", ":80", "::1:80", "127.0.0.1:70000", True, -1],
    ),
    "processes": (settings.PROCESSES, [(0, 0), (12, 12)], [-1, 1001, True, 0.0, float("nan"), "many", None]),
    "url": (settings.URL, [("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1")], ["http://localhost", ""]),
}


@pytest.mark.parametrize("kind, accepted, refused", KINDS.values(), ids=KINDS)
def test_valid_values_pass_and_invalid_ones_raise(kind, accepted, refused):
    assert [(kind.check(given), type(kind.check(given))) for given, _ in accepted] == [
        (final, type(final)) for _, final in accepted
    ]
    for given in refused:
        with pytest.raises(ValueError):
            kind.check(given)


@pytest.mark.parametrize(
    "kind, text, parsed",
    [
        (settings.whole(1), " 3 ", 3),
        (settings.whole(1), "three", "three"),
        (settings.seconds(), "2.5", 2.5),
        (settings.seconds(), "soon", "soon"),
        (settings.FLAG, "Yes", True),
        (settings.FLAG, "0", False),
        (settings.FLAG, "", False),
        (settings.FLAG, "maybe", "maybe"),
        (settings.names(), "a, b c", ["a", "b", "c"]),
        (settings.names(), "", []),
        (settings.QUEUES, "a,3 b", ["a,3", "b"]),
        (settings.text(), "x", "x"),
    ],
)
def test_text_is_parsed(kind, text, parsed):
    assert kind.parse(text) == parsed


@pytest.mark.parametrize(
    "url",
    [
        "redis://host",
        "redis://host/",
        "redis://host:1/15",
        "rediss://user:p%2Fq@host/2?db=3",
        "redis://[::1]:6379/0",
        "redis://host?db=4",
        "unix:///run/redis.sock",
        "redis+cluster://user:secret@a:1,b:2",
        "rediss+cluster://a:1,[::1]:2/0",
        "unix:///run/redis.sock?db=0",
    ],
)
def test_a_url_may_name_its_database(url):
    assert settings.URL.check(url) == url


NO_DATABASE = r"the database, after the host or in \?db=, is a number"
UNREADABLE = "host and port cannot be read"
ONCE = "user and password once, before the first host"


@pytest.mark.parametrize(
    "url, reason",
    [
        ("redis://host:1/abc", NO_DATABASE),
        ("redis://host/0/1", NO_DATABASE),
        ("redis://host?db=abc", NO_DATABASE),
        ("redis://host/0?db=", NO_DATABASE),
        ("unix:///run/redis.sock?db=one", NO_DATABASE),
        ("redis+cluster://a:1,b:2/1", "a Cluster has no database but 0"),
        ("redis://host:port/0", UNREADABLE),
        ("redis://[::1/0", UNREADABLE),
        ("redis://user:hunter2/3@host/0", UNREADABLE),
        ("redis+cluster://:hunter2@a:1,b:x", UNREADABLE),
        ("redis+cluster://a:1,,b:2", "host 2 of 3 is empty"),
        ("redis+cluster://a:1,:6379/0", "host 2 of 2 is empty"),
        ("rediss+cluster://user:hunter2@/0", "host 1 of 1 is empty"),
        ("redis+cluster://user:hunter2@a:1,user:hunter2@b:2", ONCE),
        ("redis+cluster://a:1,user:hunter2@b:2", ONCE),
        ("redis+cluster://user:hunter2@a:1, b:2", "it contains a space"),
        ("redis://:hunter2@a:1\n", "it contains a space or a line break"),
    ],
)
def test_an_invalid_url_is_refused_with_the_reason_and_without_the_password(url, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        settings.URL.check(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("cores, number", [(6, 6), (None, 1)])
def test_where_a_process_may_use_all_cores_they_are_counted(monkeypatch, cores, number):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert settings.PROCESSES.check("auto") == number


@pytest.mark.parametrize("text, number", [("3", 3), ("0", 0), ("auto", 10)])
def test_processes_are_a_number_or_one_per_core(monkeypatch, text, number):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(10)), raising=False)
    assert settings.PROCESSES.check(settings.PROCESSES.parse(text)) == number


@pytest.mark.parametrize("given", [0.5, "0.5", "1.5", 2.0])
def test_a_fraction_of_the_cores_is_refused_with_their_number(monkeypatch, given):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(10)), raising=False)
    kind = settings.PROCESSES
    with pytest.raises(ValueError, match="auto is 10 on this machine"):
        kind.check(kind.parse(given) if isinstance(given, str) else given)
