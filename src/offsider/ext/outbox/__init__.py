"""The transactional outbox: a push is a row in the application's database, in the transaction that is open.

1. The client prepares the push at the call: middleware runs, and the jid and the bytes are final (`Outbox.hook`).
2. The row becomes visible with the commit. A rollback, including to a savepoint, removes it.
3. A relay in one worker moves committed rows to Redis and deletes them (`relay`). A repetition stores no job twice.

A source connects it with a database: `offsider.django`, or `offsider.integrations.sqlalchemy_outbox`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from offsider.client.relay import Relay
from offsider.client.relay_source import Source, StoredPush
from offsider.core.errors import ConfigurationError
from offsider.core.wording import counted
from offsider.inspector.finding import Finding, error, warn

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.hooks import PendingPushes
    from offsider.config.installation import Installation

__all__ = ["Outbox", "Source", "StoredPush"]

OLD_SECONDS = 60.0


class Outbox:
    """Extension that writes pushes to a database; its workers move them to Redis.

    Args:
        source: the database.
        default: take the pushes of all jobs; False: only of those with the option ``after_commit="outbox"``.
    """

    name = "outbox"

    def __init__(self, source: Source, *, default: bool = True) -> None:
        self.source = source
        self.default = default

    def install(self, config: Config) -> None:
        """Set ``config.outbox``, and add the relay and a check. Raises ConfigurationError if another one is set."""
        if config.outbox is not None:
            raise ConfigurationError(f"config.outbox is already set to {config.outbox!r}; only one can be set")
        config.outbox = self
        config.services.append(partial(Relay, source=self.source))
        config.doctor_checks.append(self.check_outbox)

    def hook(self) -> Callable[[PendingPushes], None] | None:
        """See `offsider.config.hooks.Outbox`."""
        return self._add if self.source.is_open() else None

    def check_outbox(self, server: Installation) -> Iterator[Finding]:
        """Report old rows for this server, and a database that cannot be read, in ``offsider doctor``."""
        try:
            count, oldest = self.source.waiting().get(server.name, (0, 0.0))
        except Exception as failure:  # noqa: BLE001  # of any database driver
            yield error(
                "outbox",
                f"the outbox cannot be read: {type(failure).__name__}: {failure}",
                cause="no worker can move its rows to Redis",
                actions=("start the database; create the table with a migration",),
            )
            return
        age = time.time() - oldest
        if count and age > OLD_SECONDS:
            yield warn(
                "outbox",
                f"{counted(count, 'row')} of the outbox, the oldest for {age:.0f} seconds",
                cause="these jobs are not in Redis yet",
                actions=("run a worker with this outbox, and look for its errors in the log",),
                numbers={"rows": count},
                since=oldest,
            )

    def _add(self, pushes: PendingPushes) -> None:
        rows = [StoredPush.of(job) for job in pushes.prepare()]
        if rows:
            self.source.add(rows)
