"""Each test of the comparison runs under the conditions of its scale."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.compare import runs
from bench.compare.plan import QUICK, TESTS
from bench.compare.rivals import CONTESTANTS


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_each_test_has_the_round_trip_of_its_scale(test, monkeypatch):
    asked = []
    for kind in ("drain", "push", "latency", "memory", "kill"):
        monkeypatch.setattr(runs, kind, lambda *_, rtt_ms, **_rest: asked.append(rtt_ms) or {})
    for scale in (QUICK, replace(QUICK, rtt_ms=0.5)):
        test.run(CONTESTANTS[0], Path(), 10, scale)
    assert asked == [None, 0.5]
