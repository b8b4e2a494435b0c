"""Have all jobs arrived that were moved to another server?"""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, warn
from offsider.storage import migration


def check_migration(facts: Facts) -> Iterator[Finding]:
    """Is there a job on its way that nobody brings on?"""
    for journal in migration.journals(facts.redis):
        left = migration.waiting(facts.redis, journal)
        if left:
            yield warn(
                "migration",
                f"{counted(left, 'job')} on the way to the server {journal.server}",
                why="unless a migration runs just now, one was cut short: these jobs are safe, and do not run",
                way_out="offsider migrate -r YOUR_MODULE (it brings them on before anything else)",
            )


MIGRATION_CHECKS = (check_migration,)
