"""`manage.py offsider`: what it passes on to the program, and when a worker reloads."""

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
        return found[0][0], os.environ.get("OFFSIDER_WORKER_RELOAD")

    monkeypatch.setenv("OFFSIDER_WORKER_RELOAD", "x")  # so that it is restored
    monkeypatch.delenv("OFFSIDER_WORKER_RELOAD")
    return run


def test_a_worker_reloads_under_debug(run):
    assert run("worker", "-c", "3", DEBUG=True) == (["worker", "-c", "3"], "true")


def test_in_production_it_does_not(run):
    assert run("worker", DEBUG=False) == (["worker"], None)


def test_noreload_turns_it_off_as_in_runserver(run):
    assert run("worker", "--noreload", DEBUG=True) == (["worker"], "false")


@pytest.mark.parametrize("table", [{"reload": False}, {"worker": {"reload": False}}])
def test_the_settings_decide_if_they_name_it(run, table):
    assert run("worker", DEBUG=True, OFFSIDER=table) == (["worker"], None)


def test_so_does_the_environment(run, monkeypatch):
    monkeypatch.setenv("OFFSIDER_WORKER_RELOAD", "false")
    assert run("worker", DEBUG=True) == (["worker"], "false")


def test_the_child_of_the_reloader_finds_the_project(run):
    import sys

    run("worker", DEBUG=True)
    assert os.environ["PYTHONPATH"] == f"{sys.path[0]}{os.pathsep}/shop/lib"


def test_call_command_is_refused():
    from django.core.management.base import CommandError

    from offsider.django.management.commands.offsider import Command

    with pytest.raises(CommandError, match=r"python manage\.py offsider"):
        Command().handle()
