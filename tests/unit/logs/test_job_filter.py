"""A worker gives every handler of its application the running job."""

from __future__ import annotations

import io
import logging

import pytest

from offsider.logs.setup import JobFieldsFilter, OffsiderHandler, TextFormatter, filter_handlers
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
