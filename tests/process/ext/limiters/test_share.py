"""Limiters that several processes share, counted in a second server."""

from __future__ import annotations

import pytest

from bench.limiters import measure


@pytest.mark.timeout(120)
def test_processes_never_exceed_a_limit_and_reach_it(make_server):
    results = measure(make_server().url, make_server().url, processes=4, seconds=5)
    assert [one.kind for one in results] == ["concurrent", "bucket", "window", "leaky"]
    for one in results:
        assert 0 < one.found <= one.most, one
        assert one.reached >= 0.95, one
