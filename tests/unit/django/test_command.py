"""`manage.py offsider`: the arguments it passes on, and when a worker reloads."""

from __future__ import annotations

import os

import pytest

from tests import django_project

django_project.set_up()


@pytest.fixture
def run(monkeypatch):
    """Runs the command with a stand-in for the program; returns its arguments and the variable of the reloader."""
    from offsider.django.management.commands import offsider

    def run(*words, **settings):
        from django.test import override_settings

        found = []
        monkeypatch.setattr(offsider, "main", lambda args, prog_name: found.append((args, prog_name)))
        with override_settings(**settings):
            offsider.Command().run_from_argv(["manage.py", "offsider", *words])
        assert [name for _, name in found] == ["manage.py offsider"]
        return found[0][0], os.environ.get("DJANGO_OFFSIDER_RELOAD", os.environ.get("OFFSIDER_WORKER_RELOAD"))

    for variable in ("OFFSIDER_WORKER_RELOAD", "DJANGO_OFFSIDER_RELOAD"):
        monkeypatch.setenv(variable, "x")  # so that it is restored
        monkeypatch.delenv(variable)
    return run


@pytest.mark.parametrize(
    "words, debug, passed, reloads",
    [
        (["-c", "3"], True, ["-c", "3"], "true"),
        ([], False, [], None),
        (["--noreload"], True, [], "false"),  # as in runserver
        (["--settings=shop.settings", "-q", "a"], False, ["-q", "a"], None),
        (["--settings", "shop.settings", "-q", "a"], False, ["-q", "a"], None),
    ],
)
def test_a_worker_reloads_under_debug_and_options_of_manage_py_are_left_to_it(run, words, debug, passed, reloads):
    assert run("worker", *words, DEBUG=debug) == (["worker", *passed], reloads)


def test_call_command_is_refused():
    from django.core.management.base import CommandError

    from offsider.django.management.commands.offsider import Command

    with pytest.raises(CommandError, match=r"python manage\.py offsider"):
        Command().handle()
