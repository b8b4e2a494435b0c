"""The loop that every background service is."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from offsider.runtime import service
from offsider.runtime.service import Loop
from tests.waiting import wait_for

WAIT = 10.0


@pytest.fixture
def errors():
    return []


@pytest.fixture
def loop_of(errors):
    made = []

    def make(tick, **options):
        loop = Loop("a-loop", tick, on_error=lambda error, context: errors.append((error, context)), **options)
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
    wait_for(lambda: loop.ticks >= 1)
    loop.wake()
    wait_for(lambda: loop.ticks >= 2)
    assert names == ["a-loop", "a-loop"]
    assert loop.alive


def test_it_ticks_again_after_the_returned_time(loop_of):
    loop = loop_of(lambda: 0)
    loop.start()
    wait_for(lambda: loop.ticks >= 100)


def test_none_ends_it(loop_of):
    loop = loop_of(lambda: None)
    loop.start()
    assert loop.join(WAIT)
    assert loop.ticks == 1
    assert not loop.alive


def test_stop_ends_a_sleep(loop_of):
    loop = loop_of(lambda: 3600)
    loop.start()
    wait_for(lambda: loop.ticks >= 1)
    loop.stop()
    loop.stop()
    assert loop.join(WAIT)
    assert loop.ticks == 1


def test_a_second_start_does_nothing(loop_of):
    loop = loop_of(lambda: 3600)
    loop.start()
    loop.start()
    wait_for(lambda: loop.ticks >= 1)
    assert sum(thread.name == "a-loop" for thread in threading.enumerate()) == 1


def test_an_error_is_reported_and_the_loop_continues(loop_of, errors):
    def tick():
        if not errors:
            raise ValueError("first")
        return 3600

    loop = loop_of(tick)
    loop.start()
    wait_for(lambda: loop.ticks >= 1)
    loop.wake()
    wait_for(lambda: loop.ticks >= 2)
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
    wait_for(lambda: loop.ticks >= 1)
    assert answers == [False]


def test_a_child_that_a_tick_forked_does_not_tick_on(loop_of, errors, monkeypatch):
    class Ended(BaseException):
        pass

    def came_back():
        raise Ended

    def tick():
        monkeypatch.setattr(service, "this_process", SimpleNamespace(pid=0))  # as in a child
        return 3600

    monkeypatch.setattr(service, "came_back", came_back)
    loop = loop_of(tick)
    loop.start()
    assert loop.join(WAIT)
    assert loop.ticks == 0
    assert isinstance(errors[0][0], Ended)


def test_the_last_work_is_tried_once_and_its_error_reported_once(loop_of, errors):
    def finish():
        raise ValueError("away")

    loop = loop_of(lambda: 3600, finish=finish)
    loop.start()
    loop.stop()
    assert loop.join(WAIT)
    assert [str(error) for error, _ in errors] == ["away"]


def test_a_loop_that_was_stopped_before_its_start_has_no_last_work(loop_of):
    calls = []
    loop = loop_of(lambda: 0, finish=lambda: calls.append(1))
    loop.stop()
    loop.start()
    assert loop.join(WAIT)
    assert (calls, loop.ticks) == ([], 0)
