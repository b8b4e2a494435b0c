"""For the application's own log handlers: the filter `JobFieldsFilter` adds the running job to each record."""

from __future__ import annotations

from offsider.logs.setup import JobFieldsFilter

__all__ = ["JobFieldsFilter"]
