"""The filter that gives the application's own log handlers the running job."""

from __future__ import annotations

import io
import logging
import logging.config

import pytest

from offsider.integrations.logging import JobFieldsFilter
from offsider.runtime.context import JobContext, running

DOCUMENTED = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "offsider.integrations.logging.JobFieldsFilter"}},
    "formatters": {"line": {"format": "[%(class)s %(jid)s %(queue)s] %(message)s"}},
    "handlers": {"own": {"class": "logging.StreamHandler", "filters": ["job"], "formatter": "line"}},
    "loggers": {"shop": {"handlers": ["own"], "level": "INFO", "propagate": False}},
}


@pytest.fixture
def shop():
    shop = logging.getLogger("shop")
    yield shop
    shop.handlers, shop.propagate = [], True
    shop.setLevel(logging.NOTSET)


def test_a_format_of_the_application_names_the_job(shop):
    logging.config.dictConfig(DOCUMENTED)
    shop.handlers[0].stream = stream = io.StringIO()
    with running(JobContext({"class": "Hard", "args": ["secret"], "jid": "ab12"}, "low")):
        shop.info("sold")
    shop.info("ended")
    assert stream.getvalue() == "[Hard ab12 low] sold\n[  ] ended\n"


def test_attributes_of_a_record_are_kept_and_other_fields_added():
    record = logging.makeLogRecord({"name": "shop", "jid": "mine", "fields": "of the application"})
    with running(JobContext({"class": "Hard", "args": [], "jid": "ab12"}, "low", log={"rows": 7, "msg": "forged"})):
        assert JobFieldsFilter().filter(record)
    assert (record.jid, record.rows, record.correlation_id, record.msg) == ("mine", 7, "ab12", "")


def test_a_line_of_the_worker_brings_its_fields():
    record = logging.makeLogRecord({"name": "offsider", "fields": {"job_status": "done"}})
    JobFieldsFilter().filter(record)
    assert (record.job_status, record.jid) == ("done", "")
