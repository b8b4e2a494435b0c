"""Kinds of values: what passes, in which form, and how text is read."""

from __future__ import annotations

import os

import pytest

from offsider.wiring import kinds


@pytest.mark.parametrize(
    "kind, given, final",
    [
        (kinds.whole(1), 3, 3),
        (kinds.whole(1000, or_zero=True), 0, 0),
        (kinds.whole(1000, or_zero=True), 1000, 1000),
        (kinds.seconds(), 3, 3.0),
        (kinds.share(), 0.995, 0.995),
        (kinds.choice("a", "b", synonyms={"c": "a"}), "C", "a"),
        (kinds.number_of(6, 7, 8), 7, 7),
        (kinds.text("x+"), "xx", "xx"),
        (kinds.names(), "one", ("one",)),
        (kinds.names(), [" one ", "two"], ("one", "two")),
        (kinds.FLAG, True, True),
        (kinds.QUEUES, ["a", ["b", 2]], ("a", "b,2")),
        (kinds.QUEUES, "a", ("a",)),
        (kinds.URL, "unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        (kinds.ADDRESS, "127.0.0.1:7433", "127.0.0.1:7433"),
        (kinds.ADDRESS, "0.0.0.0:80", "0.0.0.0:80"),
        (kinds.ADDRESS, "[::1]:7433", "[::1]:7433"),
        (kinds.ADDRESS, 7433, "127.0.0.1:7433"),
        (kinds.ADDRESS, "7433", "127.0.0.1:7433"),
        (kinds.ADDRESS, "", ""),
        (kinds.processes(), 0, 0),
        (kinds.GROUPS, ["high,2  low", "*"], ("high,2 low", "*")),
        (kinds.GROUPS, "high", ("high",)),
        (kinds.processes(), 12, 12),
    ],
)
def test_what_passes(kind, given, final):
    assert kind.check(given) == final
    assert type(kind.check(given)) is type(final)


@pytest.mark.parametrize(
    "kind, given",
    [
        (kinds.whole(1), 0),
        (kinds.whole(1000, or_zero=True), 999),
        (kinds.whole(1000, or_zero=True), False),
        (kinds.GROUPS, 7),
        (kinds.GROUPS, [7]),
        (kinds.GROUPS, [" "]),
        (kinds.GROUPS, ["low low"]),
        (kinds.whole(1), True),
        (kinds.whole(1), 1.0),
        (kinds.whole(1), "1"),
        (kinds.whole(1, 5), 6),
        (kinds.seconds(), -1),
        (kinds.seconds(), float("nan")),
        (kinds.seconds(), float("inf")),
        (kinds.seconds(), True),
        (kinds.seconds(above=True), 0),
        (kinds.share(), 0),
        (kinds.share(), 1),
        (kinds.share(), True),
        (kinds.share(), "0.5"),
        (kinds.share(), float("nan")),
        (kinds.choice("a"), "b"),
        (kinds.choice("a"), 1),
        (kinds.number_of(6), True),
        (kinds.number_of(6), 9),
        (kinds.text("x+"), "y"),
        (kinds.text(), 1),
        (kinds.names(), [1]),
        (kinds.names(), [""]),
        (kinds.names(), 1),
        (kinds.FLAG, 1),
        (kinds.QUEUES, ["a", "a"]),
        (kinds.QUEUES, 1),
        (kinds.QUEUES, ["a b"]),
        (kinds.URL, "http://localhost"),
        (kinds.URL, ""),
        (kinds.ADDRESS, "localhost"),
        (kinds.ADDRESS, "localhost:"),
        (kinds.ADDRESS, ":80"),
        (kinds.ADDRESS, "::1:80"),
        (kinds.ADDRESS, "127.0.0.1:70000"),
        (kinds.ADDRESS, True),
        (kinds.ADDRESS, -1),
    ],
)
def test_what_does_not(kind, given):
    with pytest.raises(ValueError):
        kind.check(given)


@pytest.mark.parametrize(
    "kind, text, parsed",
    [
        (kinds.whole(1), " 3 ", 3),
        (kinds.whole(1), "three", "three"),
        (kinds.seconds(), "2.5", 2.5),
        (kinds.seconds(), "soon", "soon"),
        (kinds.FLAG, "Yes", True),
        (kinds.FLAG, "0", False),
        (kinds.FLAG, "", False),
        (kinds.FLAG, "maybe", "maybe"),
        (kinds.names(), "a, b c", ["a", "b", "c"]),
        (kinds.names(), "", []),
        (kinds.QUEUES, "a,3 b", ["a,3", "b"]),
        (kinds.text(), "x", "x"),
    ],
)
def test_how_text_is_read(kind, text, parsed):
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
        "unix:///run/redis.sock?db=0",
    ],
)
def test_a_url_may_name_its_database(url):
    assert kinds.URL.check(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "redis://host:1/abc",
        "redis://host/0/1",
        "redis://host/-1",
        "redis://host/0x1",
        "redis://host?db=abc",
        "redis://host/0?db=",
        "unix:///run/redis.sock?db=one",
    ],
)
def test_a_database_that_is_no_number_is_not_taken_for_database_0(url):
    with pytest.raises(ValueError, match=r"the database, after the host or in \?db=, is a number"):
        kinds.URL.check(url)


@pytest.mark.parametrize("url", ["redis://host:port/0", "redis://[::1/0", "redis://user:hunter2/3@host/0"])
def test_a_url_that_cannot_be_read_is_refused_and_not_repeated(url):
    with pytest.raises(ValueError, match="host and port cannot be read") as caught:
        kinds.URL.check(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text, number", [("3", 3), ("0", 0), ("auto", 10), ("0.25", 2), ("0.01", 1), ("1.5", 15), ("2.0", 20)]
)
def test_processes_are_counted_or_follow_the_cores(monkeypatch, text, number):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(10)), raising=False)
    assert kinds.processes().check(kinds.processes().parse(text)) == number


@pytest.mark.parametrize("cores, number", [(6, 6), (None, 1)])
def test_where_a_process_may_use_all_cores_they_are_counted(monkeypatch, cores, number):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert kinds.processes().check("auto") == number


@pytest.mark.parametrize("given", [-1, 1001, True, 0.0, -0.5, 1e9, float("nan"), "many", None])
def test_what_is_no_number_of_processes(given):
    with pytest.raises(ValueError):
        kinds.processes().check(given)


def test_groups_of_the_environment_are_divided_by_semicolons():
    assert kinds.GROUPS.check(kinds.GROUPS.parse("high,2 low; * ;")) == ("high,2 low", "*")
