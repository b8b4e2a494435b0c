"""For the application's own log handlers: the filter `JobFilter` adds the running job to each record."""

from __future__ import annotations

from offsider.logs.setup import JobFilter

__all__ = ["JobFilter"]
