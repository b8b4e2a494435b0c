"""What all workers have counted."""

from __future__ import annotations

from offsider.core.series import Series
from offsider.inspector import FleetMetrics
from offsider.storage import run_counts


def test_what_processes_add_is_read_as_one_sum(config):
    for _ in range(2):
        run_counts.add(config.shared_redis(), [], [Series({"class": "A", "queue": "q"}, 3)], 1.8e9, wire_version=8)
    assert FleetMetrics.read(config) == [Series({"class": "A", "queue": "q"}, 6)]
