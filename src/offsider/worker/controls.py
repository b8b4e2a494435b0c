"""The paused queues and the controls as this process knows them, read once a second.

1. `ControlsReader` reads the paused queues and the version of the controls: one command a second.
2. If the version has changed, the reader takes a signal, which ``offsider stop`` or a web page has left, and the rules
   read the controls. The reply to a claim carries the version as well: a new one wakes the reader. Ruby's
   pages change no version, so the reader also looks for a signal every ten seconds, as Sidekiq does.
3. If the paused queues have changed, the fetchers look for jobs, so that they block on the right queues.

So a pause or a control applies within two seconds in every process. While the server is unreachable, the controls that
were read last stay in force.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import controls, processes

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry
    from offsider.worker.run.control_rules import ControlRules

READ_SECONDS = 1.0
SIGNAL_SECONDS = 10.0
#: Maximum age of the paused queues for a job from a blocking pop to start without a claim.
MAX_AGE_SECONDS = 2.0
#: Maximum age of the controls: a server that lost its data might repeat a version.
REREAD_SECONDS = 60.0


class KnownControls:
    """What a process knows of the controls. The reader writes it, any thread reads it.

    Attributes:
        paused: the paused queues of the last read.
        read_at: when that read was sent, in monotonic seconds.
        version: the latest version that a read or a claim has returned.
        on_new_version: called by `note_version`.
        to_hold: returns the jobs that were refused and are still in a private list, until a batch of them is held.
    """

    def __init__(self) -> None:
        self.version = b""
        self.paused: frozenset[str] = frozenset()
        self.read_at = -math.inf
        self.on_new_version: Callable[[], None] | None = None
        self.to_hold: Callable[[], Sequence[PrivateListEntry]] = tuple

    @property
    def are_current(self) -> bool:
        """Whether `paused` is recent enough to start a job without a claim."""
        return time.monotonic() - self.read_at < MAX_AGE_SECONDS

    def note_version(self, version: bytes) -> None:
        """Wake the reader if the reply to a claim has a new version; an empty one says nothing."""
        if version and version != self.version and self.on_new_version is not None:
            self.version = version
            self.on_new_version()


class ControlsReader(Loop):
    """The service that reads the controls.

    Args:
        redis: the worker's server.
        controls: receives what was read.
        rules: the controls in this process; read again if their version has changed.
        identity: returns the identity to which web pages send signals.
        on_signal: handles a signal.
        on_pauses: called after the paused queues have changed.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        controls: KnownControls,
        rules: ControlRules,
        *,
        identity: Callable[[], str],
        on_signal: Callable[[str], None],
        on_pauses: Callable[[], None],
    ) -> None:
        self._redis = redis
        self._controls = controls
        self._rules = rules
        self._identity = identity
        self._on_signal = on_signal
        self._on_pauses = on_pauses
        self._version = b""
        #: When the controls must be read even if the version is the same. Monotonic seconds.
        self._reread_at = 0.0
        self._signal_at = 0.0
        self._outage = Outage("reading controls", config)
        super().__init__("offsider-controls", self.tick, config.handle_error, finish=rules.finish)
        controls.on_new_version = self.wake

    def tick(self) -> float:
        """Read once; return the seconds until the next read."""
        sent_at = time.monotonic()
        with self._outage:
            reply = controls.read(self._redis)
            self._take(reply, sent_at)
            changed = reply.version != self._version or sent_at >= self._reread_at
            if changed or sent_at >= self._signal_at:
                self._take_signals(sent_at)  # first: a worker whose rules cannot be read must still stop
            self._rules.update(changed=changed)
            if changed:
                self._version, self._reread_at = reply.version, sent_at + REREAD_SECONDS
        return READ_SECONDS

    def _take(self, reply: controls.ControlsReply, sent_at: float) -> None:
        known = self._controls
        before, known.paused, known.read_at, known.version = known.paused, reply.paused, sent_at, reply.version
        if before != reply.paused:
            self._on_pauses()
            self._reread_at = 0.0  # Ruby changes no version

    def _take_signals(self, now: float) -> None:
        while signal := processes.take_signal(self._redis, self._identity()):
            self._on_signal(signal)
        self._signal_at = now + SIGNAL_SECONDS
