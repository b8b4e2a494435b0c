"""Each process reads pauses, the version of the controls and its signals once a second."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.storage import controls as stored, processes
from offsider.storage.scripts import run_together
from offsider.worker import controls as module
from offsider.worker.controls import READ_SECONDS, ControlsReader, KnownControls
from tests.waiting import wait_for


class Reading:
    """A reader with one control table, which ``fails`` on request."""

    def __init__(self, config: Config) -> None:
        self.identity = "host:1:aaaaaaaaaaaa"
        self.signals: list[str] = []
        self.updates: list[bool] = []
        self.pauses = 0
        self.fails = self.finished = False
        self.errors: list[object] = []
        config.error_handlers.append(lambda error, _context: self.errors.append(error))
        self.redis = Installation.of(config).make_redis(1)
        self.controls = KnownControls()
        self.reader = ControlsReader(
            config,
            self.redis,
            self.controls,
            self,
            identity=lambda: self.identity,
            on_signal=self.signals.append,
            on_pauses=self.note_pauses,
        )

    def update(self, *, changed: bool) -> None:
        if self.fails:
            raise RedisUnavailable("lost")
        self.updates.append(changed)

    def finish(self) -> None:
        self.finished = True

    def note_pauses(self) -> None:
        self.pauses += 1

    def change(self) -> None:
        run_together(self.redis, *stored.changed(self.redis.keys))


@pytest.fixture
def reading(worker_config) -> Iterator[Reading]:
    one = Reading(worker_config)
    yield one
    one.reader.stop()
    assert one.reader.join(10)
    one.redis.close()


def test_pauses_of_ruby_are_read_each_time(reading, raw_redis):
    assert not reading.controls.are_current
    raw_redis.sadd("paused", "low")
    assert reading.reader.tick() == READ_SECONDS
    reading.reader.tick()
    assert reading.controls.paused == {"low"}
    assert reading.controls.are_current
    assert reading.pauses == 1, "only a change wakes the fetchers"
    raw_redis.delete("paused")
    reading.reader.tick()
    assert reading.controls.paused == frozenset()
    assert reading.pauses == 2


def test_old_knowledge_of_pauses_is_not_current(reading, monkeypatch):
    reading.reader.tick()
    monkeypatch.setattr(module, "MAX_AGE_SECONDS", 0.0)
    assert not reading.controls.are_current


def test_tables_read_their_controls_only_after_a_change(reading, monkeypatch):
    for change in (True, False, True, False):
        if change:
            reading.change()
        reading.reader.tick()
    assert reading.updates == [True, False, True, False]
    monkeypatch.setattr(module, "REREAD_SECONDS", 0.0)
    reading.change()
    reading.reader.tick()
    reading.reader.tick()
    assert reading.updates[4:] == [True, True], "and after a while, in case the server has lost data"


def test_a_failed_update_is_repeated(reading):
    reading.fails = True
    reading.reader.tick()
    reading.fails = False
    reading.reader.tick()
    assert reading.updates == [True]
    assert len(reading.errors) == 1


def test_a_new_version_in_the_reply_to_a_claim_wakes_the_reader_once(reading, monkeypatch):
    monkeypatch.setattr(module, "READ_SECONDS", 3600.0)
    reading.reader.start()
    wait_for(lambda: reading.updates == [True])
    reading.change()
    for _ in range(3):
        reading.controls.note_version(b"new")
        reading.controls.note_version(b"")
    wait_for(lambda: reading.updates == [True, True])
    reading.reader.stop()
    assert reading.reader.join(10)
    assert reading.updates == [True, True]
    assert reading.finished


def test_signals_are_taken_at_the_next_read_in_order_under_the_current_identity(reading):
    for identity, *names in (("host:1:aaaaaaaaaaaa", "TSTP", "TERM"), ("host:1:bbbbbbbbbbbb", "TTIN")):
        reading.identity = identity
        for name in names:
            processes.send_signal(reading.redis, identity, name)
        reading.reader.tick()
    assert reading.signals == ["TSTP", "TERM", "TTIN"]


def test_signals_of_rubys_pages_are_taken_as_often_as_sidekiq_does(reading, raw_redis, monkeypatch):
    reading.reader.tick()
    raw_redis.lpush(f"{reading.identity}-signals", "TSTP")
    reading.reader.tick()
    assert reading.signals == []
    later = time.monotonic() + module.SIGNAL_SECONDS
    monkeypatch.setattr(module.time, "monotonic", lambda: later)
    reading.reader.tick()
    assert reading.signals == ["TSTP"]


def test_a_worker_whose_controls_cannot_be_read_receives_its_signals(reading):
    reading.reader.tick()
    reading.fails = True
    processes.send_signal(reading.redis, reading.identity, "TERM")
    reading.reader.tick()
    assert reading.signals == ["TERM"]


def test_during_an_outage_the_last_controls_apply(proxied_config, proxy, raw_redis):
    reading = Reading(proxied_config)
    raw_redis.sadd("paused", "low")
    reading.reader.tick()
    proxy.refuse()
    assert reading.reader.tick() == READ_SECONDS
    assert reading.controls.paused == {"low"}
    assert len(reading.errors) == 1
    reading.redis.close()
