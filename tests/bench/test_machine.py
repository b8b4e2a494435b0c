"""CPU time is seen where it is used: in a process, in its children, and in those that others run."""

import os
import subprocess
import sys

import pytest

from bench.compare.machine import CpuTimes, cpu_seconds, others_cores, read_cpu_times, tree


def seen(at_seconds: float, *, workers: float = 0, server: float = 0, own: float = 0, machine: float = 0) -> CpuTimes:
    return CpuTimes(int(at_seconds * 1e9), workers, server, own, machine)


def test_other_processes_count_as_disturbance():
    before = seen(10, workers=1, server=1, own=1, machine=100)
    after = seen(12, workers=2, server=1.5, own=1.25, machine=102.75)
    assert others_cores(before, after) == pytest.approx(0.5)


def test_a_process_has_its_children_s_time_too():
    child = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.1: pass"]
    parent = [sys.executable, "-c", f"import subprocess; subprocess.run({child!r}); print(flush=True); input()"]
    with subprocess.Popen(parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert cpu_seconds(process.pid) >= 0.1
        assert list(tree(os.getpid())).count(process.pid) == 1
        assert read_cpu_times([process.pid], os.getpid()).workers >= 0.1
        process.communicate(b"\n")
    assert cpu_seconds(process.pid) == 0
