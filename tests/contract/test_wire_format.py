"""Golden payloads of Sidekiq 8.1.7, 7.3.10 and 6.4.1: what they wrote, we write byte for byte and can read.

The dumps come from real Ruby processes; only jid and clock are injected. Ruby's json before 3.0 writes
``1.0e+20`` where Python writes ``1e+20``; that float is left out where an old version is compared.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial

import pytest

from offsider import Job, job
from offsider.client import Client, Prepared
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.core.clock import Clock
from offsider.core.errors import InvalidOptions
from offsider.core.payload import decode, encode, read_stamp
from offsider.jobs import registry

TEXT = 'café <b>&</b> \u2028\u2029 日本 😀 " \\ / \t'
TEXT_JSON = 'café <b>&</b> \u2028\u2029 日本 😀 \\" \\\\ / \\t'
ORIGIN = re.compile('"signature":"[0-9a-f]{8}","app_version":"2.14",')


class Stopped(Clock):
    def __init__(self, *times: float) -> None:
        self._times = list(times)

    def now(self) -> float:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


class Side:
    """One client with a fixed clock and its stored payloads."""

    def __init__(self, version: int, stored: list[Prepared]) -> None:
        self.config = Config()
        self.config.redis.wire_version = version
        self.config.client.app_version = "2.14"
        self.client = Client(self.config)
        self.stored = stored

    def at(self, *times: float) -> "Side":
        self.config.clock = Stopped(*times)
        return self

    @property
    def raw(self) -> str:
        """The stored payload without the keys of our declared jobs, which Ruby does not use."""
        return ORIGIN.sub("", self.stored[-1].raw.decode())


@pytest.fixture
def make_side(monkeypatch) -> Iterator:
    stored: list[Prepared] = []
    for module in ("builder", "template"):
        jids = iter(f"{number:024x}" for number in range(1000))
        monkeypatch.setattr(f"offsider.client.{module}.new_jid", partial(next, jids))
    monkeypatch.setattr("offsider.client.bulk.new_jids", lambda count: ["7b170978b317d1162fc0f4c0"] * count)
    with test_mode.diverted(stored.extend), registry.isolated():
        yield lambda version: Side(version, stored)


@pytest.fixture
def side(make_side) -> Side:
    return make_side(8)


def noop(side: Side):
    @job(name="NoopJob")
    def declared(*args: object) -> None: ...

    return declared.via(side.client)


def echo(side: Side):
    @job(name="EchoJob")
    def declared(*args: object) -> None: ...

    return declared.via(side.client)


def test_perform_async_puts_args_before_class(side):
    side.at(1795216780.6525)
    noop(side).enqueue(1, "two", {"a": [1.5, None, True, 1e20, 1.0, 12345678901234567890]}, TEXT)
    assert side.raw == (
        '{"retry":true,"queue":"default","args":[1,"two",{"a":[1.5,null,true,1e+20,1.0,12345678901234567890]},'
        f'"{TEXT_JSON}"],"class":"NoopJob","jid":"000000000000000000000000",'
        '"created_at":1795216780652,"enqueued_at":1795216780652}'
    )


def test_keys_unknown_to_ruby_follow_the_options_of_a_declared_job(side):
    side.at(1795216780.6525)
    noop(side).using(tags=["a"]).enqueue()
    digest = registry.find("NoopJob").signature.digest
    assert side.stored[-1].raw.decode() == (
        f'{{"retry":true,"queue":"default","signature":"{digest}","app_version":"2.14","tags":["a"],"args":[],'
        '"class":"NoopJob","jid":"000000000000000000000000",'
        '"created_at":1795216780652,"enqueued_at":1795216780652}'
    )
    side.client.push({"class": "NoopJob", "args": []})
    assert "signature" not in side.stored[-1].payload


def test_options_of_a_push_follow_the_defaults(side):
    side.at(1795216780.6535)
    echo(side).using(queue="critical", tags=["a", "b"], retry=5).enqueue("hi")
    assert side.raw == (
        '{"retry":5,"queue":"critical","tags":["a","b"],"args":["hi"],"class":"EchoJob",'
        '"jid":"000000000000000000000000","created_at":1795216780653,"enqueued_at":1795216780653}'
    )
    side.at(1795216780.6545)
    noop(side).using(queue="opt", retry=False, backtrace=3, dead=False).enqueue()
    assert side.raw == (
        '{"retry":false,"queue":"opt","backtrace":3,"dead":false,"args":[],"class":"NoopJob",'
        '"jid":"000000000000000000000000","created_at":1795216780654,"enqueued_at":1795216780654}'
    )
    noop(side).using(queue="opt", retry_for=3600).enqueue()
    assert side.raw == (
        '{"retry":true,"queue":"opt","retry_for":3600,"args":[],"class":"NoopJob",'
        '"jid":"000000000000000000000001","created_at":1795216780654,"enqueued_at":1795216780654}'
    )


@pytest.mark.parametrize(
    "level,word",
    [
        *((word, word) for word in ("debug", "info", "warn", "error", "fatal")),
        *(("warning", "warn"), ("critical", "fatal"), ("WARNING", "warn"), ("Critical", "fatal"), ("ERROR", "error")),
    ],
)
def test_a_log_level_is_stored_in_rubys_word(side, level, word):
    """Its worker raises for any other word outside of its retrier, and the job is lost."""
    side.at(1795216780.6545)

    @job(name="Declared", log_level=level)
    def declared() -> None: ...

    declared.via(side.client).enqueue()
    declared.via(side.client).enqueue_many([()])
    noop(side).using(log_level=level).enqueue()
    noop(side).using(log_level=level).enqueue_in(60)
    side.client.push({"class": "X", "args": [], "log_level": level})
    side.client.push_bulk({"class": "X", "args": [[1], [2]], "log_level": level})
    assert [decode(prepared.raw)["log_level"] for prepared in side.stored] == [word] * 7

    side.config.jobs["log_level"] = level
    side.client.push({"class": "X", "args": []})
    assert decode(side.stored[-1].raw)["log_level"] == word


def test_a_log_level_of_middleware_is_stored_in_rubys_word_or_refused(side):
    def talk(push):
        push.payload["log_level"] = push.payload["args"][0]
        yield

    side.config.client_middleware.add(talk)
    client = Client(side.config)
    client.push({"class": "X", "args": ["WARNING"]})
    assert decode(side.stored[-1].raw)["log_level"] == "warn"
    with pytest.raises(InvalidOptions, match=r"X: log_level must be one of .*, got 'loud'"):
        client.push({"class": "X", "args": ["loud"]})


def test_options_of_the_class_line_are_in_sidekiq_order(side):
    class FailJob(Job, name="FailJob", backtrace=True, retry=3):
        def perform(self, *args: object) -> None: ...

    side.at(1795216886.9075)
    FailJob.via(side.client).enqueue("f", 1)
    assert side.raw == (
        '{"retry":3,"queue":"default","backtrace":true,"args":["f",1],"class":"FailJob",'
        '"jid":"000000000000000000000000","created_at":1795216886907,"enqueued_at":1795216886907}'
    )


def test_bulk_puts_class_before_args(side):
    expected = (
        '{"retry":true,"queue":"bulk","class":"NoopJob","args":[1],"jid":"7b170978b317d1162fc0f4c0",'
        '"created_at":1795216780654,"enqueued_at":1795216780654}'
    )
    side.at(1795216780.6545).client.push_bulk({"class": "NoopJob", "args": [[1]], "queue": "bulk"})
    assert side.raw == expected
    noop(side).using(queue="bulk").enqueue_many([(1,)])
    assert side.raw == expected


def test_a_push_by_class_name_keeps_its_own_order_and_keys(side):
    side.at(1795216780.6545).client.push(
        {"class": "PyJob", "args": [], "queue": "str", "retry": False, "custom": {"x": 1}}
    )
    assert side.raw == (
        '{"retry":false,"queue":"str","class":"PyJob","args":[],"custom":{"x":1},"jid":"000000000000000000000000",'
        '"created_at":1795216780654,"enqueued_at":1795216780654}'
    )


def test_a_scheduled_job_has_class_before_args_and_no_time_in_it(side):
    side.at(1795216780.6536582)
    noop(side).enqueue_in(3600, "in")
    assert side.raw == (
        '{"retry":true,"queue":"default","class":"NoopJob","args":["in"],"jid":"000000000000000000000000",'
        '"created_at":1795216780653}'
    )
    assert side.stored[-1].at == 1795220380.6536582


@pytest.mark.parametrize("version", [6, 7])
def test_6_and_7_write_float_seconds(make_side, version):
    side = make_side(version).at(1795216768.5422153)
    noop(side).enqueue(1, "two", {"a": [1.5, None, True, 1.0, 12345678901234567890]}, TEXT)
    assert side.raw == (
        '{"retry":true,"queue":"default","args":[1,"two",{"a":[1.5,null,true,1.0,12345678901234567890]},'
        f'"{TEXT_JSON}"],"class":"NoopJob","jid":"000000000000000000000000",'
        '"created_at":1795216768.5422153,"enqueued_at":1795216768.5422153}'
    )
    side.at(1795216768.543435)
    noop(side).enqueue_in(3600, "in")
    assert side.raw == (
        '{"retry":true,"queue":"default","class":"NoopJob","args":["in"],"jid":"000000000000000000000001",'
        '"created_at":1795216768.543435}'
    )


def test_a_moved_job_keeps_its_place_for_enqueued_at(side):
    side.at(1795216900.5535)
    first = (
        '{"retry":3,"queue":"default","backtrace":true,"args":["f",1],"class":"FailJob",'
        '"jid":"f0c7eeab0da6d328927fcf43","created_at":1795216886907,"enqueued_at":%d,'
        '"error_message":"boom é <b>x</b>","error_class":"ArgumentError","failed_at":1795216887108,"retry_count":0,'
        '"error_backtrace":"eJzdlt1u"}'
    )
    moved = side.client.reenqueue(decode((first % 1795216886907).encode()), "retry")
    assert moved is not None
    assert moved.raw.decode() == first % 1795216900553


def test_a_scheduled_job_gets_enqueued_at_at_its_end(side):
    side.at(1795220380.7)
    stored = '{"retry":true,"queue":"default","class":"NoopJob","args":["in"],"jid":"eb33","created_at":1795216780653'
    moved = side.client.reenqueue(decode((stored + "}").encode()), "schedule")
    assert moved is not None
    assert moved.raw.decode() == stored + ',"enqueued_at":1795220380700}'


WRITTEN_BY_RUBY = {
    "8.1.7 perform_async": '{"retry":true,"queue":"default","args":[1,"two",{"a":[1.5,null,true,1e+20,1.0,'
    f'12345678901234567890]}},"{TEXT_JSON}"],"class":"NoopJob","jid":"5efa06bc3e5e5361135734e8",'
    '"created_at":1795216780652,"enqueued_at":1795216780652}',
    "7.3.10 failed once": '{"retry":true,"queue":"default","class":"X","args":[],"jid":"f0c7eeab0da6d328927fcf43",'
    '"created_at":1795216768.5422153,"failed_at":1795216971.7650886,"retry_count":0,"error_backtrace":"eJzN"}',
    "6.4.1 scheduled": '{"retry":true,"queue":"default","class":"NoopJob","args":["in"],'
    '"jid":"da607c0356fc1a5b327e1ec8","created_at":1795216768.543435}',
}


@pytest.mark.parametrize("version", WRITTEN_BY_RUBY)
def test_payloads_of_ruby_round_trip_unchanged(version):
    raw = WRITTEN_BY_RUBY[version].encode()
    assert encode(decode(raw)) == raw


def test_floats_of_old_ruby_are_read_and_mean_the_same():
    raw = b'{"class":"NoopJob","args":[1.0e+20,1.0e+15,1.0e-05,0.00001,0.0000000015]}'
    assert decode(raw)["args"] == [1e20, 1e15, 1e-5, 1e-5, 1.5e-9]


def test_times_of_every_version_are_the_same_instant():
    moment = datetime.fromtimestamp(1795216780.652).timestamp()  # noqa: DTZ006
    assert read_stamp(decode(WRITTEN_BY_RUBY["8.1.7 perform_async"].encode())["created_at"]) == moment
    assert read_stamp(decode(WRITTEN_BY_RUBY["6.4.1 scheduled"].encode())["created_at"]) == 1795216768.543435
