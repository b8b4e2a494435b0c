from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from offsider import ConfigurationError, Reschedule, job, testing
from offsider.config import test_mode
from offsider.testing import disabled, fake, inline
from tests.middleware import returning


@pytest.fixture
def ran():
    return []


@pytest.fixture
def note(ran):
    @job(name="note")
    def note(word: object) -> None:
        ran.append(word)

    return note


# ------------------------------------------------------------------------------------------- fake


def test_client_middleware_runs_in_fake_mode(config, note):
    config.client_middleware.add(returning())
    with fake() as enqueued:
        assert not note.enqueue("a")
    assert enqueued.jobs == []


def test_pushes_of_other_threads_and_of_event_loops_are_caught(note):
    with fake() as enqueued:
        thread = threading.Thread(target=note.enqueue, args=["thread"])
        thread.start()
        thread.join()
        asyncio.run(note.aenqueue("loop"))
    assert [kept.args for kept in enqueued.jobs] == [["thread"], ["loop"]]


def test_modes_nest_and_the_innermost_wins(note, ran):
    with fake() as outer:
        note.enqueue("outer")
        with inline():
            note.enqueue("inline")
            with fake() as inner:
                note.enqueue("inner")
        with disabled():
            assert test_mode.current() is None
        note.enqueue("outer again")
    assert test_mode.current() is None
    assert [kept.args for kept in outer.jobs] == [["outer"], ["outer again"]]
    assert [kept.args for kept in inner.jobs] == [["inner"]]
    assert ran == ["inline"]


def test_a_mode_can_decorate_a_test(note, ran):
    @inline()
    def test() -> None:
        note.enqueue("a")

    test()
    assert ran == ["a"]


# ----------------------------------------------------------------------------------------- inline


def test_inline_walks_client_and_server_middleware(config, note, ran):
    def client_side(push):
        ran.append("client")
        yield

    def server_side(context):
        ran.append("server")
        yield

    def of_test(context):
        ran.append("test")
        yield

    config.client_middleware.add(client_side)
    config.server_middleware.add(server_side)
    with inline(server_middleware=[of_test]):
        note.enqueue("a")
    assert ran == ["client", "server", "test", "a"]


def test_an_error_of_an_inline_job_is_raised_by_the_push():
    @job(name="flaky")
    def flaky() -> None:
        raise RuntimeError("no luck")

    @job(name="impatient")
    def impatient() -> None:
        raise Reschedule(60)

    with inline():
        with pytest.raises(RuntimeError, match="no luck"):
            flaky.enqueue()
        with pytest.raises(Reschedule):
            impatient.enqueue()


@pytest.mark.parametrize("mode", ["fake", "inline"])
def test_a_mode_outside_of_tests_is_warned_about(mode):
    program = f"from offsider import testing\nwith testing.{mode}(): pass"
    ended = subprocess.run([sys.executable, "-c", program], env={}, capture_output=True, text=True, check=True)
    assert ended.stderr.count(f"offsider's {mode} mode is on, and this does not look like a test") == 1


def test_reading_enqueued_jobs_without_fake_mode_raises():
    with pytest.raises(
        ConfigurationError, match=r"assert_enqueued needs fake mode, but pushes go to Redis: use it inside"
    ):
        testing.assert_enqueued("note")
    with inline(), pytest.raises(ConfigurationError, match="but inline mode is on"):
        testing.assert_not_enqueued("note")


def test_public_names_are_found_at_first_use():
    assert set(testing.__all__) <= set(dir(testing))
    assert all(getattr(testing, name) is not None for name in testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'fkae'"):
        testing.fkae  # noqa: B018 - asking is the test
