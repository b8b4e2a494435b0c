"""The ``offsider doctor`` check of the outbox: rows must not wait for long."""

from __future__ import annotations

import time
from collections.abc import Iterator

from offsider.config.installation import Installation
from offsider.core.wording import counted
from offsider.ext.outbox.source import Source
from offsider.inspector.finding import Finding, error, ok, warn

OLD_SECONDS = 60.0


def check_outbox(server: Installation, source: Source) -> Iterator[Finding]:
    """Report old rows for this server, and a database that cannot be read."""
    try:
        count, oldest = source.waiting().get(server.name, (0, 0.0))
    except Exception as failure:  # noqa: BLE001  # of any database driver
        yield error(
            "outbox",
            f"the outbox cannot be read: {type(failure).__name__}: {failure}",
            cause="no worker can move its rows to Redis",
            action="start the database; create the table with a migration",
        )
        return
    age = time.time() - oldest
    if count and age > OLD_SECONDS:
        yield warn(
            "outbox",
            f"{counted(count, 'row')} of the outbox, the oldest for {age:.0f} seconds",
            cause="these jobs are not in Redis yet",
            action="run a worker with this outbox, and look for its errors in the log",
        )
    else:
        yield ok("outbox", f"{counted(count, 'row')} of the outbox")
