"""For the application's own log handlers: the filter `JobFilter` adds the running job to each record."""

from __future__ import annotations

import logging

from offsider.logs.setup import NO_FIELDS, fields_of, logger, structured_context


class JobFilter(logging.Filter):
    """Add the running job's fields to each record, with the field names of the structured log.

    Use it on a handler. Formats can contain ``%(jid)s``, ``%(class)s`` and ``%(queue)s``, which are empty outside of
    jobs. JSON formatters that write all attributes of a record also write the other fields: tags, ``correlation_id``,
    ``meta.*`` and those of ``current_job().log``. Attributes that a record has already are kept.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; every record passes."""
        fields = structured_context(fields_of(record) if record.name == logger.name else NO_FIELDS)
        for name, value in ({"jid": "", "class": "", "queue": ""} | fields).items():
            vars(record).setdefault(name, value)
        return True
