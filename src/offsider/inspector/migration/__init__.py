"""Move stored jobs to the queues and servers of the current routing rules.

1. `migration` reads each place in pages, and `judge` decides for each job by its declaration.
2. A moved job gets the name of its new queue, and keeps all other bytes.
3. `moving` moves it within its server in one script, or claims it, stores it on the other server and acknowledges it.
4. `report` counts the moves, or the moves of a preview.
"""

from offsider.inspector.migration.migration import Migration
from offsider.inspector.migration.report import MigrationReport, Relocation

__all__ = ["Migration", "MigrationReport", "Relocation"]
