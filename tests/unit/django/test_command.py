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
        monkeypatch.setenv("PYTHONPATH", "/shop/lib")
        monkeypatch.setattr(offsider, "main", lambda args, prog_name: found.append((args, prog_name)))
        with override_settings(**settings):
            offsider.Command().run_from_argv(["manage.py", "offsider", *words])
        assert [name for _, name in found] == ["manage.py offsider"]
        return found[0][0], os.environ.get("DJANGO_OFFSIDER_RELOAD", os.environ.get("OFFSIDER_WORKER_RELOAD"))

    for variable in ("OFFSIDER_WORKER_RELOAD", "DJANGO_OFFSIDER_RELOAD"):
        monkeypatch.setenv(variable, "x")  # so that it is restored
        monkeypatch.delenv(variable)
    return run


def test_a_worker_reloads_under_debug(run):
    assert run("worker", "-c", "3", DEBUG=True) == (["worker", "-c", "3"], "true")


def test_in_production_it_does_not(run):
    assert run("worker", DEBUG=False) == (["worker"], None)


def test_noreload_turns_it_off_as_in_runserver(run):
    assert run("worker", "--noreload", DEBUG=True) == (["worker"], "false")


@pytest.mark.parametrize("options", [["--settings=shop.settings"], ["--settings", "shop.settings"]])
def test_options_of_manage_py_are_left_to_it(run, options):
    assert run("worker", *options, "-q", "a", DEBUG=False) == (["worker", "-q", "a"], None)


def test_a_worker_reloads_from_the_folders_of_the_project_and_of_the_option(run, monkeypatch):
    monkeypatch.setattr("sys.path", ["/shop/src", "/shop", "/usr/lib"])  # manage.py has added the first
    assert run("worker", "--pythonpath=/shop/src", DEBUG=True) == (["worker"], "true")
    assert os.environ["PYTHONPATH"] == "/shop/src:/shop:/shop/lib"


def test_the_child_of_the_reloader_finds_the_project(run):
    import sys

    run("worker", DEBUG=True)
    assert os.environ["PYTHONPATH"] == f"{sys.path[0]}{os.pathsep}/shop/lib"


def test_call_command_is_refused():
    from django.core.management.base import CommandError

    from offsider.django.management.commands.offsider import Command

    with pytest.raises(CommandError, match=r"python manage\.py offsider"):
        Command().handle()
