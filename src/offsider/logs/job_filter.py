"""The running job as attributes of the application's own log records, for handlers of the application."""

from __future__ import annotations

import logging

from offsider.logs.setup import NO_FIELDS, OffsiderHandler, fields_of, logger, structured_context


class JobFilter(logging.Filter):
    """Add the running job's fields to each record, with the field names of the structured log.

    A worker adds it to all handlers of its application. Formats can contain ``%(jid)s``, ``%(class)s`` and
    ``%(queue)s``, which are empty outside of jobs. JSON formatters that write all attributes of a record also write the
    other fields: tags, ``correlation_id``, ``meta.*`` and those of ``current_job().log``. Attributes that a record has
    already are kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; every record passes."""
        fields = structured_context(fields_of(record) if record.name == logger.name else NO_FIELDS)
        for name, value in ({"jid": "", "class": "", "queue": ""} | fields).items():
            vars(record).setdefault(name, value)
        return True


def filter_handlers() -> None:
    """Add the filter to every handler of every logger, except the worker's own handler.

    Not a record factory: with one, a record with ``extra={"queue": ...}`` of the application would raise.
    """
    named = [each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger)]
    for handler in {handler for each in (logging.root, *named) for handler in each.handlers}:
        if not isinstance(handler, OffsiderHandler) and not any(isinstance(one, JobFilter) for one in handler.filters):
            handler.addFilter(JobFilter())
