"""One report when Redis becomes unavailable, one line when it is back."""

import logging

import pytest

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.runtime.outage import Outage


def test_the_first_failure_of_a_row_is_reported_and_the_end_is_logged(config, reports, caplog):
    outage = Outage("fetcher", config)
    with outage:
        pass
    with caplog.at_level(logging.INFO, "offsider"):
        for n in range(3):
            with outage:
                raise RedisUnavailable(f"gone {n}")
        with pytest.raises(ZeroDivisionError), outage:
            raise ZeroDivisionError
        assert "Redis is online" not in caplog.text
        outage.over()
        outage.over()
        outage.noticed(RedisUnavailable("gone again"))
    assert [(str(error), reported["context"]) for error, reported in reports] == [
        ("gone 0", "fetcher"),
        ("gone again", "fetcher"),
    ]
    assert len([record for record in caplog.records if "Redis is online" in record.getMessage()]) == 1


def test_a_lasting_outage_is_reported_again_after_a_minute(config, reports, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr("offsider.runtime.outage.time.monotonic", lambda: clock[0])
    outage = Outage("fetcher", config)
    for _ in range(125):
        outage.noticed(RedisUnavailable("gone"))
        clock[0] += 1
    assert len(reports) == 3


def test_a_refusal_among_successes_is_not_an_outage_and_is_logged_once_a_minute(config, reports, caplog):
    outage = Outage("fetcher", config)
    with caplog.at_level(logging.INFO, "offsider"):
        for _ in range(5):
            outage.noticed(RedisRefused("WRONGTYPE queue:wrong", code="WRONGTYPE"))
            outage.over()
    assert len(reports) == 1
    assert "Redis is online" not in caplog.text
