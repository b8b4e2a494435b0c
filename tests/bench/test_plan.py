"""Each test of the comparison runs under the conditions of its scale."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.compare import runs
from bench.compare.bench import Broken
from bench.compare.rivals import CONTESTANTS
from bench.compare.tournament import QUICK, TESTS


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_each_test_has_the_round_trip_of_its_scale(test, monkeypatch):
    asked = []

    def bench(_contestant, _programs, *, rtt_ms=None):
        asked.append(rtt_ms)
        raise Broken

    monkeypatch.setattr(runs, "bench", bench)
    for scale in (QUICK, replace(QUICK, rtt_ms=0.5)):
        with pytest.raises(Broken):
            test.run(CONTESTANTS[0], Path(), 10, scale)
    assert asked == [None, 0.5]
