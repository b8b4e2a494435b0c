"""What a long game of faults may cost."""

from bench.scoreboard.soak import PROCESSES, THREADS, threads_reached


def test_a_killed_process_costs_its_own_threads_and_a_killed_server_all_threads():
    assert threads_reached({"kill": 2, "term": 1}) == 3 * THREADS
    assert threads_reached({"server": 1, "reset": 2}) == 3 * THREADS * PROCESSES
