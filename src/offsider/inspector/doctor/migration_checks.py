"""Check for jobs in transit to another server."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, warn
from offsider.storage import migration


def check_migration(facts: Facts) -> Iterator[Finding]:
    """Find jobs that an interrupted migration left in transit."""
    for transit in migration.transits(facts.redis):
        left = migration.waiting(facts.redis, transit)
        if left:
            yield warn(
                "migration",
                f"{counted(left, 'job')} in transit to the server {transit.server}",
                why="unless a migration is running, one was interrupted; its jobs are stored but do not run",
                fix="within a day: offsider migrate -r YOUR_MODULE (it delivers these jobs first, each once)",
            )


MIGRATION_CHECKS = (check_migration,)
