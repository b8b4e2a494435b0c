"""Which runs have their CPU time measured."""

from __future__ import annotations

import time

from offsider.worker.cpu_time import EVERY, SHORT_SECONDS, CpuTime


def measured(cpu_time: CpuTime, name: str, seconds: float) -> bool:
    return cpu_time.seconds(name, cpu_time.start(name), seconds) is not None


def test_long_runs_are_all_measured():
    cpu_time = CpuTime()
    assert all(measured(cpu_time, "Long", SHORT_SECONDS) for _ in range(40))


def test_of_short_runs_every_sixteenth_is_measured_class_by_class():
    cpu_time = CpuTime()
    assert [measured(cpu_time, "Short", 0.0001) for _ in range(2 * EVERY + 1)] == (
        [True] + [False] * (EVERY - 1)
    ) * 2 + [True]
    assert measured(cpu_time, "Other", 0.0001)


def test_a_class_whose_runs_become_long_is_measured_from_the_next_on():
    cpu_time = CpuTime()
    assert [measured(cpu_time, "A", seconds) for seconds in (0.0001, 0.5, 0.5)] == [True, False, True]


def test_it_is_the_time_of_the_thread_and_not_of_the_clock_on_the_wall():
    cpu_time = CpuTime()
    started = cpu_time.start("A")
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
    told = cpu_time.seconds("A", started, 0.05)
    assert told is not None
    assert 0.001 < told < 1
