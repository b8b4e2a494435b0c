"""The threads that prevent a fork."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from offsider.cli.parent import fork_server as threads
from offsider.cli.parent.fork_server import other_threads


@pytest.fixture
def another():
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="metrics")
    thread.start()
    yield thread
    done.set()
    thread.join()


@pytest.mark.parametrize("tasks", [threads.TASKS, Path("/nowhere")], ids=["kernel", "python"])
def test_threads_are_named(another, tasks, monkeypatch):
    monkeypatch.setattr(threads, "TASKS", tasks)
    assert "metrics" in other_threads()


def test_a_process_with_one_thread_may_fork(monkeypatch, tmp_path):
    (tmp_path / str(threading.get_native_id())).mkdir()
    monkeypatch.setattr(threads, "TASKS", tmp_path)
    assert other_threads() == []


def test_threads_unknown_to_python_have_their_system_names(monkeypatch, tmp_path):
    for number, comm in (("1", "blas\n"), ("2", None)):
        (tmp_path / number).mkdir()
        if comm:
            (tmp_path / number / "comm").write_text(comm)
    monkeypatch.setattr(threads, "TASKS", tmp_path)
    assert other_threads() == ["blas (not Python's)", "thread 2"]
