"""The application's own log records: shown with their job, and neither doubled nor touched."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import logging.config
import re
import sys

import pytest

from offsider.config.config import Config
from offsider.logs.setup import logger, setup_logging, show_application_log, web_logger
from offsider.runtime.context import JobContext, running


@pytest.fixture(autouse=True)
def fresh(monkeypatch, untouched_logger):
    """Restores loggers; the root logger has no level of its own."""
    monkeypatch.setattr(logging.root, "handlers", logging.root.handlers[:])
    monkeypatch.setattr(logging.root, "level", logging.WARNING)
    shop = logging.getLogger("shop")
    monkeypatch.setattr(shop, "handlers", [])
    yield
    logging.root.setLevel(logging.WARNING)  # clears the caches of loggers
    shop.disabled = False


def without_pytest():
    """Remove the handlers that pytest adds when it calls a test."""
    for handler in logging.root.handlers[:]:
        if type(handler).__module__.startswith("_pytest"):
            logging.root.removeHandler(handler)


def start(style="text"):
    """Set logging up as a worker does after the import of the application; return the stream."""
    without_pytest()
    config, stream = Config(), io.StringIO()
    config.log.format = style
    handler = setup_logging(config.log, stream)
    if handler is not None:
        show_application_log(handler)
    return stream


def job():
    return JobContext({"class": "Hard", "args": ["secret"], "jid": "ab12"}, "low")


def test_a_record_in_a_job_has_its_jid_class_and_queue():
    stream = start()
    with running(job()):
        logging.getLogger("shop").info("sold %s", "a chair", extra={"pieces": 3})
        logging.info("from the root logger")  # noqa: LOG015
    first, second = stream.getvalue().splitlines()
    assert first.endswith(" jid=ab12 class=Hard logger=shop queue=low pieces=3: sold a chair")
    assert second.endswith(" jid=ab12 class=Hard queue=low: from the root logger")


def test_json_has_them_as_fields():
    stream = start("json")
    with running(job()):
        logging.getLogger("shop").info("sold", extra={"pieces": 3})
    entry = json.loads(stream.getvalue())
    wanted = {"jid": "ab12", "class": "Hard", "queue": "low", "logger": "shop", "pieces": 3}
    assert {name: entry[name] for name in wanted} == wanted


def test_coroutines_and_their_threads_have_them_too():
    stream = start()

    async def work():
        logging.getLogger("shop").info("async")
        await asyncio.to_thread(logging.getLogger("shop").info, "thread")

    with running(job()):
        asyncio.run(work())
    assert stream.getvalue().count(" jid=ab12 class=Hard logger=shop queue=low: ") == 2


def test_a_record_outside_of_jobs_or_about_another_job_names_no_queue():
    stream = start()
    logging.getLogger("shop").info("started")
    with running(job()):
        logging.getLogger("shop").info("pushed", extra={"jid": "cd34"})
    first, second = stream.getvalue().splitlines()
    assert first.endswith(" logger=shop: started")
    assert "queue" not in second
    assert "jid=cd34" in second


def test_a_level_of_the_application_stays():
    logging.root.setLevel(logging.DEBUG)
    stream = start()
    logging.getLogger("shop").debug("details")
    assert "details" in stream.getvalue()


def test_an_application_that_has_configured_the_root_logger_keeps_it():
    without_pytest()
    own = io.StringIO()
    logging.basicConfig(stream=own, level=logging.WARNING, format="%(message)s")
    handlers = logging.root.handlers[:]
    stream = start()
    assert logging.root.handlers == handlers
    assert logging.root.level == logging.WARNING
    logging.getLogger("shop").warning("mine")
    assert (own.getvalue(), stream.getvalue()) == ("mine\n", "")


def test_a_record_handled_by_its_own_logger_is_not_written_twice():
    """As Django's default configuration, which has no handler for the root logger."""
    own = logging.StreamHandler(io.StringIO())
    own.setLevel(logging.ERROR)
    logging.getLogger("shop").addHandler(own)
    logging.getLogger("shop").addHandler(logging.NullHandler())  # as libraries do
    stream = start()
    logging.getLogger("shop.orders").info("only here")
    logging.getLogger("shop.orders").error("only there")
    assert "only here" in stream.getvalue()
    assert "only there" not in stream.getvalue()
    assert own.stream.getvalue() == "only there\n"


def test_a_second_setup_moves_the_root_logger_to_the_new_handler():
    first = start()
    second = start()
    logging.getLogger("shop").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_dictconfig_does_not_silence_the_worker():
    """It disables and closes everything it does not name."""
    stream = start()
    logging.config.dictConfig({"version": 1, "root": {"handlers": []}})
    logger.info("running")
    web_logger.info("done")
    assert "running" in stream.getvalue()
    assert "done" in stream.getvalue()


def test_a_record_without_any_handler_is_written_to_standard_error(capsys):
    without_pytest()
    logger.handlers.clear()
    logger.propagate = True
    logger.warning("careful\x1b[31m")
    web_logger.info("done", extra={"fields": {"who": "kim"}})
    logger.info("not at the level of the root logger")
    error = capsys.readouterr().err
    assert re.findall(r"^(\w+) .*: (.*)$", error, re.MULTILINE) == [("WARN", "careful\\x1b[31m"), ("INFO", "done")]
    assert "who=kim" in error


def test_a_console_handler_of_the_application_takes_over_the_records_of_its_level(capsys):
    start()
    console = logging.StreamHandler(sys.stdout)
    console.setLevel(logging.WARNING)
    logger.addHandler(console)
    stream = start()
    logger.info("ours")
    logger.warning("theirs")
    assert ("ours" in stream.getvalue(), "theirs" in stream.getvalue()) == (True, False)
    assert capsys.readouterr().out == "theirs\n"


def test_lines_of_the_worker_belong_to_an_application_that_configures_their_logger():
    setup_logging(Config().log, io.StringIO())
    handlers = {"own": {"class": "logging.StreamHandler", "stream": io.StringIO()}}
    named = {"offsider": {"handlers": ["own"], "level": "WARNING", "propagate": False}}
    logging.config.dictConfig({"version": 1, "handlers": handlers, "loggers": named, "disable_existing_loggers": False})
    (own,) = logger.handlers
    stream = start()
    assert logger.handlers == [own]
    assert logger.level == logging.WARNING
    logger.warning("once")
    assert (own.stream.getvalue(), stream.getvalue()) == ("once\n", "")
    assert logging.root.handlers == [], "an application that configures logging keeps its root logger, too"
