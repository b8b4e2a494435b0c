"""The command and its subcommands."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from click.testing import CliRunner

from offsider import __version__
from offsider.cli.main import COMMANDS, main

VERSION = f"offsider {__version__} (Python {platform.python_version()})\n"


def call(*words):
    return CliRunner().invoke(main, words)


def test_help_lists_every_subcommand():
    result = call("-h")
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"  {name} " in result.output


@pytest.mark.parametrize("words", [["-V"], ["--version"]])
def test_the_version_is_shown(words):
    assert call(*words).output == VERSION


@pytest.mark.parametrize(
    "typed, message",
    [
        ("wroker", "no such command 'wroker' (did you mean 'worker'?)"),
        ("xyzzy", "No such command 'xyzzy'"),
        # As typed for Celery.
        ("worker -A app", "name the module of your jobs with -r"),
        ("-A app worker", "name the module of your jobs with -r"),
        ("worker -r app -Q mails", "name each queue with -q"),
        ("worker app", "unexpected extra argument (app): name the module of your jobs with -r"),
        ("worker --requir app", "--require"),
    ],
)
def test_a_usage_error_names_what_to_type(typed, message):
    result = call(*typed.split())
    assert result.exit_code == 2
    assert message in result.output


def test_a_command_without_an_application_does_not_ask_for_one():
    assert "-r" not in call("stats", "app").output


def test_the_module_is_the_command():
    run = subprocess.run(
        [sys.executable, "-m", "offsider", "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout == VERSION


def test_the_help_groups_the_commands_and_cuts_no_summary():
    shown = CliRunner().invoke(main, ["--help"]).output
    headings = [line.rstrip(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", "Run", "Look", "Act", "Deploy"]
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []
    assert "..." not in shown.partition("Run:")[2]
