"""The transactional outbox: a push is a row in the application's database, in the transaction that is open.

1. The client prepares the push at the call: middleware runs, and the jid and the bytes are final (`Outbox.hook`).
2. The row becomes visible with the commit. A rollback, including to a savepoint, removes it.
3. A relay in one worker moves committed rows to Redis and deletes them (`relay`). A repetition stores no job twice.

A source connects it with a database: `offsider.django`, or `offsider.integrations.sqlalchemy_outbox`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from offsider.client.relay import Relay
from offsider.client.relay_source import Source, StoredPush
from offsider.core.errors import ConfigurationError
from offsider.inspector.finding import Finding
from offsider.inspector.findings.data_checks import find_rows

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.hooks import PendingPushes
    from offsider.config.installation import Installation

__all__ = ["Outbox", "Source", "StoredPush"]


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
        return find_rows(server, self.source, "create the table with a migration", "run a worker with this outbox")

    def _add(self, pushes: PendingPushes) -> None:
        rows = [StoredPush.of(job) for job in pushes.prepare()]
        if rows:
            self.source.add(rows)
