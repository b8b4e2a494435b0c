"""One report when Redis goes away, one line when it is back."""

import logging

from offsider.core.errors import RedisUnavailable
from offsider.worker.outage import Outage


def test_the_first_failure_of_a_row_is_reported_and_the_end_is_logged(config, reports, caplog):
    outage = Outage("fetcher", config)
    outage.over()
    with caplog.at_level(logging.INFO, "offsider"):
        for n in range(3):
            outage.noticed(RedisUnavailable(f"gone {n}"))
        outage.over()
        outage.over()
        outage.noticed(RedisUnavailable("gone again"))
    assert [(str(error), told["context"]) for error, told in reports] == [
        ("gone 0", "fetcher"),
        ("gone again", "fetcher"),
    ]
    assert len([record for record in caplog.records if "Redis is online" in record.getMessage()]) == 1
