"""A worker gives every handler of its application the running job."""

from __future__ import annotations

import io
import logging
import time

import pytest

from offsider.logs.setup import (
    MAX_JOB_LINE_CHARACTERS,
    MAX_JOB_LINES,
    JobFieldsFilter,
    OffsiderHandler,
    TextFormatter,
    filter_handlers,
)
from offsider.runtime.context import JobContext, running

JOB = JobContext({"class": "Hard", "args": ["secret"], "jid": "ab12"}, "low")


@pytest.fixture
def handlers(monkeypatch):
    """Handlers of the root logger and of the logger ``shop``, with their streams; nothing else handles records."""
    made = []
    for name in ("root", "shop"):
        handler = logging.StreamHandler(io.StringIO())
        handler.setFormatter(logging.Formatter(f"{name} [%(class)s %(jid)s %(queue)s] %(message)s"))
        made.append(handler)
    monkeypatch.setattr(logging.root, "handlers", made[:1])
    shop = logging.getLogger("shop")
    monkeypatch.setattr(shop, "handlers", made[1:])
    return made


def written(handlers):
    return [handler.stream.getvalue() for handler in handlers]


def test_every_handler_of_the_application_gets_the_running_job(handlers):
    filter_handlers()
    with running(JOB):
        logging.getLogger("shop.cart").warning("sold", extra={"queue": "of the shop"})
    logging.getLogger("shop.cart").warning("ended")
    line, end = "[Hard ab12 of the shop] sold\n", "[  ] ended\n"
    assert written(handlers) == [f"root {line}root {end}", f"shop {line}shop {end}"]


def test_a_handler_gets_it_once_and_the_handler_of_the_worker_never(handlers):
    handlers[1].addFilter(JobFieldsFilter())
    own = OffsiderHandler(io.StringIO(), TextFormatter())
    logging.root.handlers.append(own)
    filter_handlers()
    filter_handlers()
    assert [len(handler.filters) for handler in (*handlers, own)] == [1, 1, 0]


def test_a_handler_of_the_application_writes_a_bounded_traceback_of_our_records():
    stream, error = io.StringIO(), ValueError("x" * 10_000_000)
    handler = logging.StreamHandler(stream)
    handler.addFilter(JobFieldsFilter())
    handler.handle(logging.LogRecord("offsider", logging.WARNING, "", 0, "failed", (), (ValueError, error, None)))
    assert "ValueError: xxx" in stream.getvalue()
    assert len(stream.getvalue()) < 20_000


def lines(job):
    return [(line.level, line.message) for line in job.log_lines or ()]


def test_a_job_keeps_its_last_lines_once_however_many_handlers_write_them(handlers):
    filter_handlers()
    job = JobContext({"class": "Hard", "args": [], "jid": "ab12"}, "low")
    before = time.time()
    with running(job):
        for number in range(MAX_JOB_LINES + 5):
            logging.getLogger("shop.cart").warning("sold %d", number)
        logging.getLogger("shop").debug("no handler writes this")
        logging.getLogger("offsider").warning("a line of the worker")
    logging.getLogger("shop").warning("not of the job")
    assert lines(job) == [("WARN", f"sold {number}") for number in range(5, MAX_JOB_LINES + 5)]
    assert job.log_lines is not None
    assert before <= job.log_lines[0].at <= time.time()


def test_the_handler_of_the_worker_keeps_lines_too_bounded_and_with_the_error_that_they_report(handlers):
    logging.root.handlers = [OffsiderHandler(io.StringIO(), TextFormatter())]
    logging.getLogger("shop").handlers.clear()
    job = JobContext({"class": "Hard", "args": [], "jid": "ab12"}, "low")
    with running(job):
        logging.getLogger("shop.cart").error("cannot sell", exc_info=ValueError("no stock"))
        logging.getLogger("shop.cart").warning("a\nb%s", "x" * 1_000)
    first, second = lines(job)
    assert first == ("ERROR", "cannot sell (ValueError: no stock)")
    assert second[1].startswith("a\\nbxxx")
    assert len(second[1]) <= MAX_JOB_LINE_CHARACTERS + 1


def test_a_job_that_does_not_log_keeps_nothing(handlers):
    filter_handlers()
    job = JobContext({"class": "Hard", "args": [], "jid": "ab12"}, "low")
    with running(job):
        pass
    assert job.log_lines is None
