"""Moving stored jobs to where today's rules want them.

1. Every place is walked through in small steps, and each job judged by its declaration (`judge`).
2. A job that moves gets the name of its new queue, and keeps all other bytes (`rewriting`).
3. It moves within its server in one step, or by way of a journal to another one (`moving`).
4. What was done, or would be, is counted (`report`).
"""

from offsider.inspector.migration.migration import Migration
from offsider.inspector.migration.report import MigrationReport, Relocation

__all__ = ["Migration", "MigrationReport", "Relocation"]
