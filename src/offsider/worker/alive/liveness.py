"""Keeps the owner alive in the registry: one small beat, nine times per liveness period.

If this owner was declared dead, the server refuses the beat, and the ownership takes a new nonce. At each beat the
fetchers also compare the number of their jobs with the length of their private lists. The parent beats too, from a
process that no job can block; this service reports to it at each beat, even when the beat failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.runtime.service import LoopService
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.worker.alive.ownership import Ownership
    from offsider.worker.alive.parent_link import ParentLink

BEATS_PER_LIFE = 9


class Liveness(LoopService):
    """The service that sends liveness beats.

    Args:
        audits: called after each successful beat.
        parent: receives a report when a beat fails, as proof that the worker still runs.
    """

    def __init__(
        self,
        config: Config,
        ownership: Ownership,
        audits: Sequence[Callable[[], None]],
        parent: ParentLink | None = None,
    ) -> None:
        self._ownership = ownership
        self._audits = audits
        self._parent = parent
        self._pause_seconds = config.worker.liveness_seconds / BEATS_PER_LIFE
        self._outage = Outage("liveness", config)
        super().__init__("offsider-liveness", self.tick, config.handle_error)

    def tick(self) -> float:
        """Beat once."""
        try:
            self._ownership.register()
            for audit in self._audits:
                audit()
        except RedisFailure as error:
            self._outage.noticed(error)
            if self._parent is not None:
                self._parent.repeat()
            return min(1.0, self._pause_seconds)
        self._outage.over()
        return self._pause_seconds
