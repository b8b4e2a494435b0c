"""A forked worker is one of its own: what it lets go of is checked in `test_supervisor`, its core here."""

from __future__ import annotations

import os

import pytest

from offsider.cli.supervisor.nursery import pin
from tests.waiting import wait_for


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_workers_take_the_cores_in_turn():
    cores = sorted(os.sched_getaffinity(0))
    for place in range(len(cores) + 1):
        child = os.fork()
        if child == 0:
            pin(place)
            os._exit(0 if os.sched_getaffinity(0) == {cores[place % len(cores)]} else 1)
        assert wait_for(lambda child=child: os.waitpid(child, 0))[1] == 0


def test_where_nothing_can_be_bound_nothing_happens(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    pin(0)
