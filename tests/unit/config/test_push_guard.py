"""The hook through which an extension stores jobs itself: when it is called, and the meaning of its results."""

import pytest

from offsider.client import Client
from offsider.config.config import Config
from offsider.core.payload import decode
from offsider.storage.scripts import Script

SCRIPT = Script("oldest")


class Guard:
    """Takes the jobs with a colour."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, object, float | None]] = []

    def concerns(self, push):
        return "colour" in push.payload

    def take(self, push, at):
        self.asked.append((push.reason, push.payload.get("colour"), at))
        push.payload["seen"] = True
        return "colour" in push.payload

    def due(self, push, now):
        return now + push.payload["delay"] if "delay" in push.payload else None

    def call(self, keys, jobs):
        return SCRIPT, [keys.queues], [job.raw for job in jobs]

    def refused(self, jobs, reply):
        return reply


@pytest.fixture
def guard():
    return Guard()


@pytest.fixture
def config(guard):
    config = Config()
    config.push_guard = guard
    return config


def test_the_guard_runs_after_middleware_and_may_change_the_payload(config, guard, stored):
    def paint(push):
        push.payload["colour"] = "red"
        yield

    config.client_middleware.add(paint)
    Client(config).push({"class": "X", "args": []})
    assert guard.asked == [("push", "red", None)]
    assert stored[0].guarded
    assert decode(stored[0].raw)["seen"] is True


def test_the_guard_receives_the_due_time(config, guard, stored):
    Client(config).push({"class": "X", "args": [], "at": 4_102_444_800})
    assert guard.asked == [("push", None, 4_102_444_800)]
    assert not stored[0].guarded


def test_the_guard_does_not_run_for_stored_jobs_that_move_to_a_queue(config, guard):
    client = Client(config)
    prepared = client.reenqueue({"class": "X", "args": [], "queue": "default", "colour": "red"}, "retry")
    assert prepared is not None
    assert not prepared.guarded
    assert guard.asked == []


def test_in_a_bulk_push_the_guard_runs_only_for_jobs_it_concerns(config, guard, stored):
    client = Client(config)
    client.push_bulk({"class": "X", "args": [[1], [2]]})
    assert guard.asked == []
    client.push_bulk({"class": "X", "args": [[1], [2]], "colour": "red"})
    assert [colour for _, colour, _ in guard.asked] == ["red", "red"]
    assert [job.guarded for job in stored] == [False, False, True, True]


def test_the_guard_may_delay_a_push_that_has_no_time(config, guard, stored):
    now = config.clock.now()
    Client(config).push({"class": "X", "args": [], "extra": {"delay": 60, "colour": "red"}})
    Client(config).push({"class": "X", "args": [], "at": now + 5, "extra": {"delay": 60, "colour": "red"}})
    delayed, timed = stored
    assert delayed.at == pytest.approx(now + 60, abs=5)
    assert timed.at == now + 5
    assert "enqueued_at" not in delayed.payload
    assert [at for _, _, at in guard.asked] == [delayed.at, timed.at]
