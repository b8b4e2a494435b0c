"""The loop that every background service is."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from offsider.runtime import service
from offsider.runtime.service import Loop, LoopService

WAIT = 10.0


@pytest.fixture
def errors():
    return []


@pytest.fixture
def loop_of(errors):
    made = []

    def make(tick):
        loop = Loop("a-loop", tick, on_error=lambda error, context: errors.append((error, context)))
        made.append(loop)
        return loop

    yield make
    for loop in made:
        loop.stop()
        assert loop.join(WAIT)


def test_it_ticks_at_once_and_again_when_woken(loop_of):
    names = []
    loop = loop_of(lambda: names.append(threading.current_thread().name) or 3600)
    loop.start()
    assert loop.wait_for_tick(1, WAIT)
    loop.wake()
    assert loop.wait_for_tick(2, WAIT)
    assert names == ["a-loop", "a-loop"]
    assert loop.alive


def test_it_ticks_again_after_the_returned_time(loop_of):
    loop = loop_of(lambda: 0)
    loop.start()
    assert loop.wait_for_tick(100, WAIT)


def test_none_ends_it(loop_of):
    loop = loop_of(lambda: None)
    loop.start()
    assert loop.join(WAIT)
    assert loop.ticks == 1
    assert not loop.alive


def test_stop_ends_a_sleep(loop_of):
    loop = loop_of(lambda: 3600)
    loop.start()
    assert loop.wait_for_tick(1, WAIT)
    loop.stop()
    loop.stop()
    assert loop.join(WAIT)
    assert loop.ticks == 1


def test_stop_before_start_is_tolerated_and_final(loop_of):
    loop = loop_of(lambda: 0)
    loop.stop()
    loop.start()
    assert loop.join(WAIT)
    assert loop.ticks == 0


def test_a_second_start_does_nothing(loop_of):
    loop = loop_of(lambda: 3600)
    loop.start()
    loop.start()
    assert loop.wait_for_tick(1, WAIT)
    assert sum(thread.name == "a-loop" for thread in threading.enumerate()) == 1


def test_an_error_is_reported_and_the_loop_continues(loop_of, errors):
    def tick():
        if not errors:
            raise ValueError("first")
        return 3600

    loop = loop_of(tick)
    loop.start()
    assert loop.wait_for_tick(1, WAIT)
    loop.wake()
    assert loop.wait_for_tick(2, WAIT)
    [(error, context)] = errors
    assert (str(error), context) == ("first", {"service": "a-loop"})


def test_anything_harder_is_the_last_word(loop_of, errors):
    def tick():
        raise SystemExit(3)

    loop = loop_of(tick)
    loop.start()
    assert loop.join(WAIT)
    assert isinstance(errors[0][0], SystemExit)


def test_joining_oneself_does_not_hang(loop_of):
    answers = []
    loop = loop_of(lambda: answers.append(loop.join()))
    loop.start()
    assert loop.wait_for_tick(1, WAIT)
    assert answers == [False]


def test_waiting_for_a_missing_tick_times_out(loop_of):
    assert loop_of(lambda: 0).wait_for_tick(1, 0.01) is False


def test_a_child_that_a_tick_forked_does_not_tick_on(loop_of, errors, monkeypatch):
    class Ended(BaseException):
        pass

    def came_back():
        raise Ended

    def tick():
        monkeypatch.setattr(service, "here", SimpleNamespace(pid=0))  # as in a child
        return 3600

    monkeypatch.setattr(service, "came_back", came_back)
    loop = loop_of(tick)
    loop.start()
    assert loop.join(WAIT)
    assert loop.ticks == 0
    assert isinstance(errors[0][0], Ended)


def test_a_service_with_one_loop_has_its_name_and_ends_with_it(errors):
    ticks = []
    one = LoopService("a-service", lambda: ticks.append(None) or 3600, lambda error, context: errors.append(error))
    assert one.name == "a-service"
    one.start()
    one.stop()
    assert one.join(WAIT)
    assert len(ticks) <= 1
    assert errors == []
