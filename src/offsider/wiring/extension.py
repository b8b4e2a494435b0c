"""What an installable feature looks like to the rest of the house."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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


@dataclass(frozen=True)
class WebTab:
    """A page of the web UI as plain data, so that an extension needs no import of the web.

    Attributes:
        name: of the tab, unique.
        title: what people read.
        path: below the UI's root, for example ``"/batches"``.
        routes: path below it -> the function that answers.
    """

    name: str
    title: str
    path: str
    routes: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
