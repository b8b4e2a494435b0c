"""What a real Sidekiq 8.1.7 stored, case by case: read as Ruby meant it, and written again byte for byte.

scripts/dump_sidekiq_payloads.py writes the file; here no Ruby runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar, copy_context
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from offsider import Client, Config, Job
from offsider.config import test_mode
from offsider.core.active_job import read, read_pairs, write
from offsider.core.compression import expand_backtrace
from offsider.core.errors import MalformedPayload
from offsider.core.normalize import ignored, normalize
from offsider.core.payload import decode, encode, read_stamp
from offsider.ext.current_attributes import CurrentAttributes
from offsider.jobs import registry
from offsider.jobs.inline import run_prepared

DUMPS = json.loads((Path(__file__).parent / "sidekiq-8.1.7.json").read_text("utf-8"))
STORED: Mapping[str, list[dict]] = DUMPS["stored"]
NO_JOB = "no JSON, dead"
NO_JID = re.compile('"jid":"[0-9a-f]{24}",')
JOBS = [pytest.param(entry["raw"].encode(), id=name) for name in STORED if name != NO_JOB for entry in STORED[name]]
ATTRIBUTES = [name for name in STORED if name.startswith("cattr: ")]


def payload_of(name):
    [entry] = STORED[name]
    return decode(entry["raw"].encode())


@pytest.mark.parametrize("raw", JOBS)
def test_a_job_is_read_and_written_again_byte_for_byte(raw):
    assert encode(decode(raw)) == raw


def test_bytes_that_are_not_json_are_malformed():
    [entry] = STORED[NO_JOB]
    assert entry["key"] == "dead"
    with pytest.raises(MalformedPayload):
        decode(entry["raw"].encode())


# ---------------------------------------------------------------------------------- bulk pushes
@pytest.mark.parametrize(
    "name,items",
    [
        ("push_bulk", {"args": [[1], [2]]}),
        ("push_bulk with batch_size", {"args": [[1], [2], [3]], "batch_size": 2}),
        ("push_bulk with at", {"args": [[1], [2]], "at": [DUMPS["now"] + 5, DUMPS["now"] + 6.25]}),
        ("push_bulk with spread_interval", {"args": [[1], [2], [3]], "spread_interval": 60}),
    ],
)
def test_a_bulk_push_with_the_keys_of_rubys_hash_is_stored_as_ruby_stores_it(name, items):
    config, stored = Config(), []
    config.clock = SimpleNamespace(now=lambda: DUMPS["now"])
    with test_mode.diverted(stored.extend):
        Client(config).push_bulk({"class": "NoopJob", **items})
    dumped = sorted(STORED[name], key=lambda entry: json.loads(entry["raw"])["args"])
    assert [NO_JID.sub("", prepared.raw.decode()) for prepared in stored] == [
        NO_JID.sub("", entry["raw"]) for entry in dumped
    ]
    moments, rubys = [prepared.at for prepared in stored], [entry.get("score") for entry in dumped]
    if "spread_interval" in items:
        assert all(0 <= moment - DUMPS["now"] < 60 for moment in [*moments, *rubys])
    else:
        assert moments == rubys


# ---------------------------------------------------------------------------------- odd values
MEANINGS = {
    "log_level: :warn": "warn",
    'log_level: "fatal"': "fatal",
    "log_level: 0": "debug",
    "log_level: 2": "warn",
    "set log_level": "error",
    'retry: "5"': True,
    "retry: 2.5": True,
    "retry: nil": None,
    'backtrace: "10"': 10,
    'dead: "false"': True,
    "dead: nil": None,
    "retry_for: 3600.0": 3600,
    "jid: 12345": "12345",
    "tags: nil": None,
    'tags: ["a", "b"]': ["a", "b"],
    "retry_queue: nil": None,
    "kwargs: nil": None,
    "queue: null": None,
}
IGNORED = ['kwargs: "x"', 'soft_timeout: "none"', "hard_timeout: {}", 'interrupted_count: "2"', "signature: 5"]


def key_of(name):
    return name.removeprefix("set ").partition(":")[0]


@pytest.mark.parametrize("name", MEANINGS)
def test_an_odd_value_has_the_meaning_that_ruby_gives_it(name):
    payload = payload_of(name)
    known = normalize(payload)
    assert known.get(key_of(name)) == MEANINGS[name]
    assert ignored(payload, known) == []


@pytest.mark.parametrize("name", IGNORED)
def test_values_without_meaning_in_ruby_are_ignored_by_name(name):
    payload = payload_of(name)
    assert ignored(payload, normalize(payload)) == [key_of(name)]


def test_nothing_is_ignored_of_any_other_job():
    others = STORED.keys() - {*IGNORED, NO_JOB}
    payloads = [decode(entry["raw"].encode()) for name in others for entry in STORED[name]]
    assert [payload for payload in payloads if ignored(payload, normalize(payload))] == []


# ------------------------------------------------------------------------------ retries and the dead
@pytest.mark.parametrize("name", [name for name in STORED if STORED[name][0]["key"] in {"schedule", "retry"}])
def test_a_job_in_a_set_moves_to_its_queue_otherwise_unchanged(name):
    config = Config()
    config.clock = SimpleNamespace(now=lambda: DUMPS["now"])
    for entry in STORED[name]:
        stored = decode(entry["raw"].encode())
        moved = Client(config).reenqueue(stored, "retry" if entry["key"] == "retry" else "schedule")
        assert moved.queue == stored["queue"]
        assert moved.payload == {**stored, "enqueued_at": 1795216780652}


@pytest.mark.parametrize(
    "name,lines,counts",
    [
        ("failed once", ["app/jobs/é.rb:3:in `perform'", "app/jobs/base.rb:9:in `call'"], (0, 3)),
        ("failed twice", ["app/jobs/é.rb:3:in `perform'"], (1, 3)),
        ("failed with an odd retry and backtrace", ["app/jobs/é.rb:3:in `perform'"], (0, True)),
    ],
)
def test_a_failure_is_read_with_its_backtrace_and_counts(name, lines, counts):
    failed = normalize(payload_of(name))
    assert expand_backtrace(failed["error_backtrace"]) == lines
    assert (failed["retry_count"], failed["retry"]) == counts
    assert (failed["error_class"], failed["error_message"]) == ("RuntimeError", "boom é <b>x</b>")
    assert read_stamp(failed["failed_at"]) == DUMPS["now"]


# ------------------------------------------------------------------------------- current attributes
MEANT = {
    "integer": 7,
    "big integer": 2**70,
    "float": 1.5,
    "string": "é 😀",
    "nil": None,
    "true": True,
    "symbol": "admin",
    "time": datetime(2026, 11, 22, 6, 30, 19, 123456, UTC),
    "time with an offset": datetime(2026, 11, 22, 6, 30, 19, 500000, timezone(timedelta(hours=5, minutes=30))),
    "time with zone": datetime(2026, 11, 21, 0, 19, 40, 651999, ZoneInfo("Europe/Berlin")),
    "datetime": datetime(2026, 11, 22, 6, 30, 19, 250000, timezone(timedelta(hours=-3))),
    "date": date(2026, 11, 22),
    "duration": timedelta(minutes=90),
    "duration in months": timedelta(seconds=2629746 + 86400),
    "decimal": Decimal("12.34"),
    "small decimal": Decimal("-0.00000123"),
    "range": {"_aj_serialized": "ActiveJob::Serializers::RangeSerializer", "begin": 1, "end": 5, "exclude_end": True},
    "module": {"_aj_serialized": "ActiveJob::Serializers::ModuleSerializer", "value": "NoopJob"},
    "record": {"_aj_globalid": "gid://shop/User/7"},
    "array": [1, "two", [date(2026, 1, 2)]],
    "hash with symbol keys": {"a": 1, "b": {"c": "d"}},
    "hash with string keys": {"a": 1, "when": date(2026, 1, 2)},
    "hash with both": {"a": 1, "b": 2},
    "hash with indifferent access": {"a": 1},
}
#: Values whose type Python does not have, or that Python's own form differs from in a detail.
ONE_WAY = {
    *("symbol", "array", "time", "time with zone", "datetime", "duration", "duration in months"),
    *("hash with symbol keys", "hash with both", "hash with indifferent access"),
}


@pytest.mark.parametrize("name", MEANT)
def test_a_current_attribute_has_the_value_that_ruby_meant(name):
    values, nameless = read_pairs(payload_of(f"cattr: {name}")["cattr"])
    value, _ = read(values["value"])
    assert nameless == 0
    assert value == MEANT[name]
    assert type(value) is type(MEANT[name])
    if isinstance(value, datetime):
        assert value.utcoffset() == MEANT[name].utcoffset()


@pytest.mark.parametrize("name", sorted(MEANT.keys() - ONE_WAY))
def test_a_value_is_written_as_ruby_wrote_it(name):
    assert write(MEANT[name]) == read_pairs(payload_of(f"cattr: {name}")["cattr"])[0]["value"]


def test_every_dump_of_an_attribute_is_expected():
    others = {"several attributes of two classes", "failed once", "active_job", "range of dates"}
    assert {name.removeprefix("cattr: ") for name in ATTRIBUTES} == MEANT.keys() | others


class Current:
    user_id: ContextVar[int | None] = ContextVar("user_id", default=None)
    role: ContextVar[str | None] = ContextVar("role", default=None)
    since: ContextVar[date | None] = ContextVar("since", default=None)
    tags: ContextVar[list[str] | None] = ContextVar("tags", default=None)


class Tenant:
    slug: ContextVar[str | None] = ContextVar("slug", default=None)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_job_of_ruby_sees_its_attributes_here_and_passes_them_on(name, caplog):
    config, seen, passed = Config(), [], []
    config.use(CurrentAttributes(Current, Tenant))
    with registry.isolated():

        class Reading(Job, name=payload_of(name)["class"]):
            def perform(self, *args):
                seen.append((Current.user_id.get(), Current.role.get(), Current.since.get(), Tenant.slug.get()))
                with test_mode.diverted(passed.extend):
                    Client(config).push({"class": "X", "args": []})

        run_prepared(config, Client(config).reenqueue(payload_of(name), "retry"))
    values, _ = read_pairs(payload_of(name)["cattr"])
    assert seen[0][0] == values.get("user_id")
    assert caplog.records == []
    if name.endswith("two classes"):
        assert seen == [(7, "admin", date(2026, 1, 2), "acme")]
        known = [
            pair for pair in payload_of(name)["cattr"] if pair[0]["value"] in vars(Current) and pair[1] is not None
        ]
        assert sorted(passed[0].payload["cattr"], key=str) == sorted(known, key=str)
        assert passed[0].payload["cattr_1"] == payload_of(name)["cattr_1"]


def test_values_of_python_are_stored_in_rubys_bytes():
    config, stored = Config(), []
    config.use(CurrentAttributes(Current, Tenant))

    def push():
        Current.user_id.set(7)
        Current.since.set(date(2026, 1, 2))
        Current.tags.set(["a", "b"])
        Tenant.slug.set("acme")
        with test_mode.diverted(stored.extend):
            Client(config).push({"class": "NoopJob", "args": []})

    copy_context().run(push)
    ruby = payload_of("cattr: several attributes of two classes")
    ours = sorted(map(json.dumps, stored[0].payload["cattr"]))
    assert ours == sorted(
        json.dumps(pair) for pair in ruby["cattr"] if pair[0]["value"] in {"user_id", "since", "tags"}
    )
    assert json.dumps(stored[0].payload["cattr_1"]) == json.dumps(ruby["cattr_1"])
