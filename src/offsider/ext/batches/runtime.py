"""The settings of the extension, which batches find through their configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.errors import ConfigurationError
from offsider.ext.batches.store import Lineages, Lives

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.installation import Installation

#: Payload keys: the batch of a member, and the batch of a callback.
BID = "bid"
CALLBACK_OF = "batch_callback"


@dataclass(frozen=True, slots=True)
class Installed:
    """The settings of the installed extension; see `Batches`."""

    ttl_seconds: int
    linger_seconds: int

    @classmethod
    def of(cls, config: Config) -> Installed:
        """Return the settings. Raises ConfigurationError if the extension is not installed."""
        found = config.shared.peek(cls)
        if found is None:
            raise ConfigurationError("the extension Batches is not installed; call config.use(Batches())")
        return found

    def lives(self, config: Config) -> Lives:
        dead_seconds = max(self.ttl_seconds, int(config.worker.dead_timeout_seconds))
        return Lives(self.ttl_seconds, self.linger_seconds, dead_seconds)


def lineages(here: Installation) -> Lineages:
    """Return the cache that the process shares for this server."""
    return here.shared.get(Lineages, lambda: Lineages(here.redis))
