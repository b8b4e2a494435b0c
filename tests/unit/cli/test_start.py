"""TERM and INT while the command imports its modules, and a current folder that is a link or was removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offsider.cli.signals import SignalQueue
from offsider.cli.start import install_boot_signals, leave_removed_folder, start_folder, uninstall_boot_signals
from offsider.core.errors import ConfigurationError

# Stops at the import of the module that imports the rest of the worker.
SLOW_IMPORT = """
import sys, time

class Slow:
    def find_spec(self, name, *_):
        if name == "offsider.cli.worker":
            print("importing", flush=True)
            while True:  # a signal just before a sleep has to wait for its end
                time.sleep(0.01)

from offsider.cli.main import main

sys.meta_path.insert(0, Slow())
main(["worker"])
"""


@pytest.fixture(autouse=True)
def restored():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_during_the_imports_ends_the_worker_with_code_0(number):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", SLOW_IMPORT], **pipes) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""


def test_the_queue_replaces_the_handlers_and_restores_those_of_python():
    install_boot_signals()
    queue = SignalQueue()
    queue.install()
    os.kill(os.getpid(), signal.SIGTERM)
    assert queue.wait(10) == ["TERM"]
    queue.close()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_handlers_of_the_application_are_left_alone():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    install_boot_signals()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    uninstall_boot_signals()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_a_check_of_the_configuration_that_is_interrupted_does_not_exit_with_0():
    program = """
import os, signal
from offsider.cli import plan
from offsider.cli.main import main

plan.show_plan = lambda options: os.kill(os.getpid(), signal.SIGTERM)
main(["worker", "--dry-run"])
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == -signal.SIGTERM


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A release in which this process runs, and the link by which the shell entered it."""
    folder, link = tmp_path / "1", tmp_path / "current"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.chdir(link)
    return folder, link


@pytest.mark.parametrize("named", ["", "/", "relative", "/nowhere", "\0", "caf\udce9"])
def test_a_wrong_pwd_is_not_used(release, monkeypatch, named):
    if "\0" in named:
        monkeypatch.setattr(os, "environ", {"PWD": named})
    else:
        monkeypatch.setenv("PWD", named)
    assert start_folder() == str(release[0])


def test_pwd_names_the_link(release, monkeypatch):
    monkeypatch.setenv("PWD", str(release[1]))
    assert start_folder() == str(release[1])


def test_a_removed_folder_is_left_for_the_one_that_pwd_names_now(release, monkeypatch, tmp_path):
    folder, link = release
    monkeypatch.setenv("PWD", str(link))
    leave_removed_folder()
    assert Path.cwd() == folder
    folder.rmdir()
    with pytest.raises(ConfigurationError, match=r"current folder .*/current has been removed: change into"):
        leave_removed_folder()
    (tmp_path / "2").mkdir()
    link.unlink()
    link.symlink_to(tmp_path / "2")
    leave_removed_folder()
    assert Path.cwd() == tmp_path / "2"
