"""Keeps the owner alive in the registry: one small beat, nine times in a liveness life.

When the server says that this owner was declared dead, the ownership takes a new nonce. At each beat the
fetchers also compare how many jobs they hold with how many lie in their lists. The keeper beats too, from a process
that no job can hold up; it hears of each beat, and also of one that Redis did not take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.wiring.service import Loop
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.worker.keeper.link import KeeperLink
    from offsider.worker.ownership import Ownership

BEATS_PER_LIFE = 9


class Liveness:
    """The service that beats.

    Args:
        audits: called after each beat that was written.
        keeper: told that the worker is still there while beats fail.
    """

    def __init__(
        self,
        config: Config,
        ownership: Ownership,
        audits: Sequence[Callable[[], None]],
        keeper: KeeperLink | None = None,
    ) -> None:
        self._ownership = ownership
        self._audits = audits
        self._keeper = keeper
        self._pause_seconds = config.worker.liveness_seconds / BEATS_PER_LIFE
        self._outage = Outage("liveness", config)
        self._loop = Loop("offsider-liveness", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def tick(self) -> float:
        """Beat once."""
        try:
            self._ownership.register()
            for audit in self._audits:
                audit()
        except RedisFailure as error:
            self._outage.noticed(error)
            if self._keeper is not None:
                self._keeper.repeat()
            return min(1.0, self._pause_seconds)
        self._outage.over()
        return self._pause_seconds
