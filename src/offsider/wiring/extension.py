"""What an installable feature looks like to the rest of the house."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from offsider.wiring.config import Config


@runtime_checkable
class Extension(Protocol):
    """Installed by ``config.use(extension)``.

    ``install`` may add client and server middleware, events, services, error and death handlers, a fetcher, a queue
    resolver, job options, fields of the heartbeat's info, and web tabs. There is no other door.
    """

    @property
    def name(self) -> str:
        """Unique among the installed extensions."""
        ...

    def install(self, config: Config) -> None: ...
