"""The paused queues and the controls as this process knows them, read once a second.

1. `ControlsReader` runs one script a second. It reads the paused queues and the version of the controls, and takes a
   signal from a web page or ``offsider stop``.
2. If the version has changed, each control table reads its controls. The reply to a claim carries the version as well:
   a new one wakes the reader.
3. If the paused queues have changed, the fetchers look for jobs, so that they block on the right queues.

So a pause or a control applies within two seconds in every process. While the server is unreachable, the controls that
were read last stay in force.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from offsider.core.errors import RedisFailure
from offsider.runtime.service import FinishingService
from offsider.storage import controls
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry

READ_SECONDS = 1.0
#: Maximum age of the paused queues for a job from a blocking pop to start without a claim.
MAX_AGE_SECONDS = 2.0
#: Maximum age of the controls: a server that lost its data might repeat a version.
REREAD_SECONDS = 60.0


class KnownControls:
    """What a process knows of the controls. The reader writes it, any thread reads it.

    Attributes:
        paused: the paused queues of the last read.
        has_held: whether any job was held at the last read.
        read_at: when that read was sent, in monotonic seconds.
        version: the latest version that a read or a claim has returned.
        on_new_version: called by `note_version`.
        to_hold: returns the jobs that were refused and are still in a private list, until a batch of them is held.
    """

    def __init__(self) -> None:
        self.version = b""
        self.paused: frozenset[str] = frozenset()
        self.has_held = True
        self.read_at = -math.inf
        self.on_new_version: Callable[[], None] | None = None
        self.to_hold: Callable[[], Sequence[PrivateListEntry]] = tuple

    @property
    def are_current(self) -> bool:
        """Whether `paused` is recent enough to start a job without a claim."""
        return time.monotonic() - self.read_at < MAX_AGE_SECONDS

    def note_version(self, version: bytes) -> None:
        """Wake the reader if the reply to a claim has a new version."""
        if version != self.version and self.on_new_version is not None:
            self.version = version
            self.on_new_version()


class ControlTable(Protocol):
    """Controls that are read again when their version has changed."""

    def update(self, *, changed: bool) -> None:
        """Called once a second; ``changed`` if the controls must be read.

        Raises:
            RedisFailure: they could not be read. The next call has ``changed`` again.
        """
        ...

    def finish(self) -> None:
        """Called once, at the end of the worker."""
        ...


class ControlsReader(FinishingService):
    """The service that reads the controls.

    Args:
        redis: the worker's server.
        controls: receives what was read.
        tables: the control tables to update.
        identity: returns the identity to which web pages send signals.
        on_signal: handles a signal.
        on_pauses: called after the paused queues have changed.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        controls: KnownControls,
        tables: Sequence[ControlTable],
        *,
        identity: Callable[[], str],
        on_signal: Callable[[str], None],
        on_pauses: Callable[[], None],
    ) -> None:
        self._redis = redis
        self._controls = controls
        self._tables = tables
        self._identity = identity
        self._on_signal = on_signal
        self._on_pauses = on_pauses
        self._version = b""
        #: When the tables must read their controls even if the version is the same. Monotonic seconds.
        self._reread_at = 0.0
        self._outage = Outage("reading controls", config)
        super().__init__("offsider-controls", self.tick, self._end, config.handle_error)
        controls.on_new_version = self._loop.wake

    def tick(self) -> float:
        """Read once; return the seconds until the next read."""
        sent_at = time.monotonic()
        try:
            reply = controls.read(self._redis, self._identity())
            self._take(reply, sent_at)
            self._update_tables(reply.version, sent_at)
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()
        return READ_SECONDS

    def _take(self, reply: controls.ControlsReply, sent_at: float) -> None:
        known = self._controls
        before, known.paused, known.read_at, known.version = known.paused, reply.paused, sent_at, reply.version
        known.has_held = reply.has_held
        if before != reply.paused:
            self._on_pauses()
        if reply.signal:
            self._on_signal(reply.signal)

    def _update_tables(self, version: bytes, now: float) -> None:
        changed = version != self._version or now >= self._reread_at
        for table in self._tables:
            table.update(changed=changed)
        if changed:
            self._version, self._reread_at = version, now + REREAD_SECONDS

    def _end(self) -> None:
        for table in self._tables:
            table.finish()
