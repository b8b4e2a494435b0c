"""A process with more than one thread must not fork."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from offsider.cli import supervisor as threads
from offsider.cli.supervisor import other_threads, refuse_threads
from offsider.core.errors import ConfigurationError


@pytest.fixture
def another():
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="metrics")
    thread.start()
    yield thread
    done.set()
    thread.join()


@pytest.mark.parametrize("tasks", [threads.TASKS, Path("/nowhere")], ids=["kernel", "python"])
def test_threads_are_refused_by_name(another, tasks, monkeypatch):
    monkeypatch.setattr(threads, "TASKS", tasks)
    assert "metrics" in other_threads()
    with pytest.raises(ConfigurationError, match=r"started threads .*metrics.*remove --preload"):
        refuse_threads()


def test_a_process_with_one_thread_may_fork(monkeypatch, tmp_path):
    (tmp_path / str(threading.get_native_id())).mkdir()
    monkeypatch.setattr(threads, "TASKS", tmp_path)
    assert other_threads() == []
    refuse_threads()


def test_threads_unknown_to_python_have_their_system_names(monkeypatch, tmp_path):
    for number, comm in (("1", "blas\n"), ("2", None)):
        (tmp_path / number).mkdir()
        if comm:
            (tmp_path / number / "comm").write_text(comm)
    monkeypatch.setattr(threads, "TASKS", tmp_path)
    assert other_threads() == ["blas (not Python's)", "thread 2"]
