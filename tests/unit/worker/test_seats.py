"""Which threads of a capsule may take a job."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsider.worker.run import seats as module
from offsider.worker.run.seats import Seats
from tests.threads import hammering
from tests.waiting import wait_for


@pytest.fixture
def threads():
    """Threads by number: ``threads(1, call)`` calls in the first one and returns the result."""
    made = [ThreadPoolExecutor(1) for _ in range(4)]
    yield lambda number, call: made[number - 1].submit(call).result(20)
    for each in made:
        each.shutdown()


@pytest.fixture
def spare(monkeypatch):
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.01)


def test_there_is_a_seat_per_thread(threads, spare):
    seats = Seats(2, 10)
    assert [threads(number, seats.wait) for number in (1, 2, 3)] == [True, True, False]
    assert [threads(number, seats.is_seated) for number in (1, 2, 3)] == [True, True, False]
    assert threads(1, seats.wait), "it has its seat already"


def test_a_thread_that_waits_for_a_coroutine_lets_another_one_take_jobs(threads, spare):
    seats = Seats(1, 10)
    assert threads(1, seats.wait)
    assert threads(1, seats.give_up), "nobody is spare: a thread has to be started"
    assert threads(2, seats.wait)
    threads(1, seats.take_back)
    assert not threads(1, seats.is_seated)
    assert not threads(1, seats.wait)
    threads(2, seats.leave)
    assert threads(1, seats.wait)


def test_a_coroutine_that_ends_before_another_thread_started_gets_its_seat_back(threads, spare):
    seats = Seats(1, 10)
    threads(1, seats.wait)
    assert threads(1, seats.give_up)
    threads(1, seats.take_back)
    assert threads(1, seats.is_seated)
    assert not threads(2, seats.wait)


def test_without_a_free_coroutine_seat_the_thread_keeps_its_own(threads, spare):
    seats = Seats(2, 1)
    assert threads(1, seats.wait)
    assert threads(2, seats.wait)
    assert threads(1, seats.give_up)
    assert not threads(2, seats.give_up)
    assert threads(2, seats.is_seated)


def test_a_long_coroutine_leaves_its_thread_seat_when_a_coroutine_seat_is_free(threads, spare):
    seats = Seats(1, 1)
    threads(1, seats.wait)
    threads(1, seats.give_up)
    threads(2, seats.wait)
    assert not threads(2, seats.give_up), "all coroutine seats are taken"
    assert not threads(3, seats.wait)
    threads(1, seats.take_back)
    assert threads(1, seats.is_seated)
    assert not threads(2, seats.is_seated)
    assert seats.coroutines == 1
    threads(2, seats.take_back)
    assert not threads(2, seats.wait)
    assert seats.coroutines == 0


def test_a_thread_is_started_for_the_seat_of_a_long_coroutine(threads, spare):
    seats = Seats(2, 1)
    threads(1, seats.wait)
    threads(2, seats.wait)
    threads(1, seats.give_up)
    assert not threads(2, seats.give_up)
    assert threads(1, seats.take_back), "both thread seats are free, and only one is taken back"
    assert threads(3, seats.wait)
    assert not threads(4, seats.wait)


def test_a_thread_that_ends_leaves_its_coroutine_seat_to_a_long_coroutine(threads, spare):
    seats = Seats(1, 1)
    threads(1, seats.wait)
    threads(1, seats.give_up)
    threads(2, seats.wait)
    threads(2, seats.give_up)
    threads(1, seats.leave)
    assert not threads(2, seats.is_seated)
    assert threads(3, seats.wait)


def test_a_settling_thread_without_a_seat_still_counts_as_a_running_job(threads, spare):
    seats = Seats(1, 1)
    threads(1, seats.wait)
    threads(1, seats.give_up)
    assert threads(2, seats.wait)
    threads(1, seats.take_back)  # in vain
    assert not threads(2, seats.give_up)
    assert threads(1, seats.wait)
    assert not threads(2, seats.is_seated)


def test_a_spare_thread_is_used_instead_of_a_new_one(threads):
    seats = Seats(1, 10)
    threads(1, seats.wait)
    got = []
    spare = threading.Thread(target=lambda: got.append(seats.wait()))
    spare.start()
    wait_for(lambda: seats._spare)
    assert not threads(1, seats.give_up)
    spare.join(20)
    assert got == [True]


def test_each_free_seat_wakes_one_spare_thread(threads):
    """The last to arrive gets the seat, so that surplus threads end."""
    seats = Seats(1, 10)
    threads(1, seats.wait)
    got: dict[int, bool] = {}
    spare = [threading.Thread(target=lambda number=number: got.update({number: seats.wait()})) for number in (1, 2)]
    for number, thread in enumerate(spare, 1):
        thread.start()
        wait_for(lambda number=number: len(seats._spare) == number)
    assert not threads(1, seats.give_up)
    for thread in spare:
        thread.join(20)
    assert got == {1: False, 2: True}


def test_a_seat_given_at_the_end_of_the_wait_is_taken(threads, monkeypatch):
    """The spare thread's wait ends just before it gets the seat: nobody else may get it, so it must not end."""
    monkeypatch.setattr(module, "SPARE_SECONDS", 0.0)
    seats = Seats(1, 10)
    threads(1, seats.wait)
    got = []
    with hammering():
        for _ in range(300):
            spare = threading.Thread(target=lambda: got.append(seats.wait() and (seats.leave() or True)))
            spare.start()
            threads(1, seats.leave)
            spare.join(20)
            assert threads(1, seats.wait), "no seat was lost"
    assert len(got) == 300


def test_after_the_close_spare_threads_end_and_seats_stay_where_they_are(threads):
    seats = Seats(2, 10)
    threads(1, seats.wait)
    threads(2, seats.wait)
    threads(2, seats.give_up)
    threads(3, seats.wait)
    got = []
    spare = threading.Thread(target=lambda: got.append(seats.wait()))
    spare.start()
    wait_for(lambda: seats._spare)
    seats.close()
    spare.join(20)
    assert got == [True], "the fetcher ends it"
    assert not threads(1, seats.give_up)
    assert threads(1, seats.wait)
    assert threads(2, seats.wait)
