"""What a worker and the child of an isolated job send to each other."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from contextlib import closing

import pytest

from offsider import HardTimeout, current_job, sets_context
from offsider.ext.limiters import Limiters
from offsider.runtime.context import JobContext, running
from offsider.storage.iteration import KEEP_ITERATION
from offsider.storage.scripts import Script
from offsider.worker.run.coroutine_run import CoroutineRun
from offsider.worker.run.interrupt import Injection, Window
from offsider.worker.run.isolated import ChildRun, IsolatedChildren, Link


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_messages_of_any_size_arrive_in_their_order(ends):
    sender, link = Link(ends[0]), Link(ends[1])
    sent = [("small",), ("large", "x" * 1_000_000), ("last", 1), ("one more", 2)]
    thread = threading.Thread(target=lambda: [sender.send(pickle.dumps(one)) for one in sent])
    thread.start()
    assert [link.receive() for _ in sent] == sent
    thread.join()
    assert link.is_open()
    ends[0].close()
    assert not link.is_open()
    with pytest.raises(EOFError):
        link.receive()


def test_a_large_result_is_not_copied_for_each_part_of_it(ends):
    sender, link = Link(ends[0]), Link(ends[1])
    result = b"x" * 40_000_000
    thread = threading.Thread(target=sender.send, args=(pickle.dumps(result),))
    began = time.process_time()
    thread.start()
    assert link.receive() == result
    thread.join()
    assert time.process_time() - began < 3  # not 7 s


def test_a_script_stays_the_same_object():
    assert pickle.loads(pickle.dumps(KEEP_ITERATION)) is KEEP_ITERATION
    source = "#!lua flags=allow-oom\n-- of this test\nreturn 1"
    data = pickle.dumps(Script("mine", source=source)).replace(b"return 1", b"return 2")
    assert pickle.loads(data).source.endswith("return 2")
    assert pickle.loads(data) is pickle.loads(data)


def test_measured_times_of_a_child_are_those_of_the_run():
    job = JobContext({"class": "Any", "args": [], "jid": "1"}, "default")
    job.add_measured({})
    assert not job.measured_seconds
    with running(job), current_job().measure("redis"):
        pass
    job.add_measured({"db": 2.0})
    assert job.measured_seconds["db"] == 2.0
    assert set(job.measured_seconds) == {"db", "redis"}


def test_nothing_is_raised_in_a_run_that_has_not_begun(ends):
    run = ChildRun(IsolatedChildren(ends[0]), JobContext({"class": "Any", "args": []}, "default"), "default")
    assert not run.aim(HardTimeout, "late", lambda: None)
    assert not run.kill(HardTimeout("late"))
    assert (run.place(), run.frames()) == ("", ())


def test_threads_and_coroutines_cannot_be_killed():
    assert not Injection(Window()).kill(HardTimeout("late"))
    assert not CoroutineRun.kill(None, HardTimeout("late"))


def test_middleware_is_marked_for_the_child():
    def middleware(_job):
        yield

    assert sets_context(middleware) is middleware
    assert middleware.sets_context
    assert Limiters()._run.sets_context  # an `OverLimit` that leaves its process has lost its limiter
