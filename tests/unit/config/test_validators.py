"""Kinds of values: accepted values, their form, and the parsing of text."""

from __future__ import annotations

import os

import pytest

from offsider.config import validators


@pytest.mark.parametrize(
    "kind, given, final",
    [
        (validators.whole(1), 3, 3),
        (validators.whole(1000, or_zero=True), 0, 0),
        (validators.whole(1000, or_zero=True), 1000, 1000),
        (validators.seconds(), 3, 3.0),
        (validators.share(), 0.995, 0.995),
        (validators.choice("a", "b", synonyms={"c": "a"}), "C", "a"),
        (validators.number_of(6, 7, 8), 7, 7),
        (validators.text("x+"), "xx", "xx"),
        (validators.names(), "one", ("one",)),
        (validators.names(), [" one ", "two"], ("one", "two")),
        (validators.FLAG, True, True),
        (validators.QUEUES, ["a", ["b", 2]], ("a", "b,2")),
        (validators.QUEUES, "a", ("a",)),
        (validators.URL, "unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        (validators.ADDRESS, "127.0.0.1:7433", "127.0.0.1:7433"),
        (validators.ADDRESS, "0.0.0.0:80", "0.0.0.0:80"),
        (validators.ADDRESS, "[::1]:7433", "[::1]:7433"),
        (validators.ADDRESS, 7433, "127.0.0.1:7433"),
        (validators.ADDRESS, "7433", "127.0.0.1:7433"),
        (validators.ADDRESS, "", ""),
        (validators.processes(), 0, 0),
        (validators.processes(), 12, 12),
    ],
)
def test_valid_values_pass(kind, given, final):
    assert kind.check(given) == final
    assert type(kind.check(given)) is type(final)


@pytest.mark.parametrize(
    "kind, given",
    [
        (validators.whole(1), 0),
        (validators.whole(1000, or_zero=True), 999),
        (validators.whole(1000, or_zero=True), False),
        (validators.whole(1), True),
        (validators.whole(1), 1.0),
        (validators.whole(1), "1"),
        (validators.whole(1, 5), 6),
        (validators.seconds(), -1),
        (validators.seconds(), float("nan")),
        (validators.seconds(), float("inf")),
        (validators.seconds(), True),
        (validators.seconds(above=True), 0),
        (validators.share(), 0),
        (validators.share(), 1),
        (validators.share(), True),
        (validators.share(), "0.5"),
        (validators.share(), float("nan")),
        (validators.choice("a"), "b"),
        (validators.choice("a"), 1),
        (validators.number_of(6), True),
        (validators.number_of(6), 9),
        (validators.text("x+"), "y"),
        (validators.text(), 1),
        (validators.text(), "caf\udce9"),
        (validators.names(), [1]),
        (validators.names(), [""]),
        (validators.names(), 1),
        (validators.FLAG, 1),
        (validators.QUEUES, ["a", "a"]),
        (validators.QUEUES, 1),
        (validators.QUEUES, ["a,b"]),
        (validators.URL, "http://localhost"),
        (validators.URL, ""),
        (validators.ADDRESS, "localhost"),
        (validators.ADDRESS, "localhost:"),
        (validators.ADDRESS, ":80"),
        (validators.ADDRESS, "::1:80"),
        (validators.ADDRESS, "127.0.0.1:70000"),
        (validators.ADDRESS, True),
        (validators.ADDRESS, -1),
    ],
)
def test_invalid_values_raise(kind, given):
    with pytest.raises(ValueError):
        kind.check(given)


@pytest.mark.parametrize(
    "kind, text, parsed",
    [
        (validators.whole(1), " 3 ", 3),
        (validators.whole(1), "three", "three"),
        (validators.seconds(), "2.5", 2.5),
        (validators.seconds(), "soon", "soon"),
        (validators.FLAG, "Yes", True),
        (validators.FLAG, "0", False),
        (validators.FLAG, "", False),
        (validators.FLAG, "maybe", "maybe"),
        (validators.names(), "a, b c", ["a", "b", "c"]),
        (validators.names(), "", []),
        (validators.QUEUES, "a,3 b", ["a,3", "b"]),
        (validators.text(), "x", "x"),
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
    assert validators.URL.check(url) == url


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
def test_a_non_numeric_database_is_not_read_as_database_0(url):
    with pytest.raises(ValueError, match=r"the database, after the host or in \?db=, is a number"):
        validators.URL.check(url)


def test_a_cluster_has_no_other_database():
    with pytest.raises(ValueError, match="a Cluster has no database but 0"):
        validators.URL.check("redis+cluster://a:1,b:2/1")


@pytest.mark.parametrize(
    "url",
    ["redis://host:port/0", "redis://[::1/0", "redis://user:hunter2/3@host/0", "redis+cluster://:hunter2@a:1,b:x"],
)
def test_a_url_that_cannot_be_read_is_refused_and_not_repeated(url):
    with pytest.raises(ValueError, match="host and port cannot be read") as caught:
        validators.URL.check(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url, reason",
    [
        ("redis+cluster://a:1,,b:2", "host 2 of 3 is empty"),
        ("redis+cluster://a:1,b:2,", "host 3 of 3 is empty"),
        ("redis+cluster://,a:1", "host 1 of 2 is empty"),
        ("redis+cluster://a:1,:6379/0", "host 2 of 2 is empty"),
        ("rediss+cluster://user:hunter2@/0", "host 1 of 1 is empty"),
        ("redis+cluster://user:hunter2@a:1,user:hunter2@b:2", "user and password once, before the first host"),
        ("redis+cluster://a:1,user:hunter2@b:2", "user and password once, before the first host"),
        ("redis+cluster://user:hunter2@a:1, b:2", "it contains a space"),
        ("redis://:hunter2@a:1\n", "it contains a space or a line break"),
    ],
)
def test_a_fault_in_the_hosts_of_a_cluster_is_named_without_the_password(url, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        validators.URL.check(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text, number", [("3", 3), ("0", 0), ("auto", 10)])
def test_processes_are_a_number_or_one_per_core(monkeypatch, text, number):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(10)), raising=False)
    assert validators.processes().check(validators.processes().parse(text)) == number


@pytest.mark.parametrize("cores, number", [(6, 6), (None, 1)])
def test_where_a_process_may_use_all_cores_they_are_counted(monkeypatch, cores, number):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert validators.processes().check("auto") == number


@pytest.mark.parametrize("given", [-1, 1001, True, 0.0, -0.5, 1e9, float("nan"), "many", None])
def test_invalid_process_counts_raise(given):
    with pytest.raises(ValueError):
        validators.processes().check(given)


@pytest.mark.parametrize("given", [0.5, "0.5", "1.5", 2.0])
def test_a_fraction_of_the_cores_is_refused_with_their_number(monkeypatch, given):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(10)), raising=False)
    kind = validators.processes()
    with pytest.raises(ValueError, match="auto is 10 on this machine"):
        kind.check(kind.parse(given) if isinstance(given, str) else given)
