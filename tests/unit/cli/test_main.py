"""The command and its subcommands."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from click.testing import CliRunner

from offsider import __version__
from offsider.cli.main import COMMANDS, main, version


def call(*words):
    return CliRunner().invoke(main, words)


def test_help_lists_every_subcommand():
    result = call("-h")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"  {name} " in result.output


@pytest.mark.parametrize("words", [["-V"], ["--version"], ["worker", "-V"]])
def test_the_version_is_shown(words):
    assert call(*words).output == f"offsider {__version__}\n"


def test_an_unknown_word_is_a_usage_error():
    result = call("wroker")
    assert result.exit_code == 2
    assert "no such command 'wroker' (did you mean 'worker'?)" in result.output
    result = call("xyzzy")
    assert result.exit_code == 2
    assert "No such command 'xyzzy'" in result.output


@pytest.mark.parametrize("words", [["worker", "-A", "app"], ["-A", "app", "worker"]])
def test_the_application_option_of_celery_names_our_option(words):
    result = call(*words)
    assert result.exit_code == 2
    assert "name the module of your jobs with -r" in result.output


def test_the_queue_option_of_celery_names_our_option():
    assert "name each queue with -q" in call("worker", "-r", "app", "-Q", "mails").output


def test_an_application_without_its_option_names_the_option():
    result = call("worker", "app")
    assert result.exit_code == 2
    assert "unexpected extra argument (app): name the module of your jobs with -r" in result.output
    assert "-r" not in call("version", "app").output


def test_another_unknown_option_is_a_usage_error():
    result = call("worker", "--requir", "app")
    assert result.exit_code == 2
    assert "--require" in result.output


def test_the_module_is_the_command():
    run = subprocess.run(
        [sys.executable, "-m", "offsider", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout == f"offsider {__version__}\n"


def test_it_prints_both_versions():
    assert CliRunner().invoke(version).output == f"offsider {__version__} (Python {platform.python_version()})\n"
