"""Pushes during an outage: they are written to the spool until the server replies again.

1. A push that was certainly not stored is written to the spool, unless it needs the server's reply.
2. From then on, pushes of the process to this server are written there directly: none waits for the server.
3. A relay in a thread of the process asks for the server each second, and moves the rows.
4. It moves the last rows while pushes wait. Then they go to the server again, so that queues keep their order.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from offsider.client.relay import BATCH, IDLE_SECONDS, Relay
from offsider.client.relay_source import StoredPush, place_of
from offsider.client.spool import MEMORY, Spool, SpoolEntry, SpoolFull, SpoolUnusable
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.wording import counted
from offsider.runtime.forks import this_process
from offsider.runtime.service import Loop

if TYPE_CHECKING:
    from offsider.client.delivery import Outcome
    from offsider.config.config import Config
    from offsider.config.hooks import Prepared

logger = logging.getLogger("offsider")
Groups: TypeAlias = "Sequence[Sequence[Prepared]]"
#: SQLite must not close a connection that the parent of a process has opened.
_inherited: list[Spool] = []


class _Behind(NamedTuple):
    """A server whose pushes are written to the spool.

    Attributes:
        reason: why it could not be reached.
        places: the places whose pushes are; None for all.
    """

    reason: str
    places: Collection[str] | None = None


class Spooling:
    """The spool of one process, its relay, and the servers whose pushes it takes.

    Attributes:
        spool: the rows.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._begin()
        if self.spool.path == MEMORY:
            atexit.register(self._report_lost)

    @classmethod
    def of(cls, config: Config) -> Spooling:
        """Return that of this process, for ``client.spool``. After its first push, it moves earlier rows."""
        found = config.shared.peek(cls) or config.shared.get(cls, lambda: cls(config))
        if found._pid != this_process.pid:  # noqa: SLF001  # a forked child
            _inherited.append(found.spool)
            found._begin()  # noqa: SLF001
        return found

    def _begin(self) -> None:
        settings = self._config.client
        self.spool = Spool(settings.spool, settings.spool_max_jobs)
        self._behind: dict[str, _Behind] = {}
        self._relay: SpoolRelay | None = None
        self._has_looked = False
        self._starting = threading.Lock()  # its own: an event loop must not wait for the file
        self._news: list[tuple[str, str, str]] = []
        self._pid = this_process.pid

    def _look(self) -> None:
        """Start the relay if there may be rows of an earlier process.

        After the first push: two threads that import redis-py at once can deadlock.
        """
        self._has_looked = True
        try:
            if self.spool.path != MEMORY and self.spool.exists():
                self._start_relay()
        except SpoolUnusable as error:
            self._config.handle_error(error, {"context": "opening the spool"})

    def store(self, server: Installation, groups: Groups, send: Callable[[Groups], Sequence[Outcome]]) -> list[Outcome]:
        """Store groups of jobs of one server there, or in the spool; return the outcome of each.

        Args:
            server: the server.
            groups: the jobs of each push.
            send: stores groups on the server.
        """
        outcomes: list[Outcome] = [()] * len(groups)
        for turn in self._turns(server, groups, outcomes):
            try:
                turn.take(send(turn.sent) if turn.sent else ())
            except RedisUnavailable as error:
                turn.take([error] * len(turn.sent))
            if turn.entries:
                self._put(turn)
        return outcomes

    async def astore(
        self, server: Installation, groups: Groups, send: Callable[[Groups], Awaitable[Sequence[Outcome]]]
    ) -> list[Outcome]:
        """As `store`, from a coroutine; a thread writes to the file."""
        outcomes: list[Outcome] = [()] * len(groups)
        for turn in self._turns(server, groups, outcomes):
            try:
                turn.take(await send(turn.sent) if turn.sent else ())
            except RedisUnavailable as error:
                turn.take([error] * len(turn.sent))
            if turn.entries:
                await server.loop_threads.run(partial(self._put, turn))
        return outcomes

    def _turns(self, server: Installation, groups: Groups, outcomes: list[Outcome]) -> Generator[_Turn]:
        """Yield tries to store groups, until each has an outcome."""
        left: Collection[int] = range(len(groups))
        while left:
            turn = _Turn(self, server, groups, left, outcomes)
            yield turn
            left = turn.finish()
        if not self._has_looked:
            self._look()

    def _put(self, turn: _Turn) -> None:
        self.spool.put([turn.entries[index] for index in sorted(turn.entries)])
        self._start_relay()

    def behind(self, server: str, jobs: Sequence[Prepared]) -> str:
        """Return why jobs of a server are written to the spool; empty if they are not."""
        behind = self._behind.get(server)
        if behind is None or (behind.places is not None and not any(place_of(job) in behind.places for job in jobs)):
            return ""
        return behind.reason

    def is_behind(self, server: str) -> bool:
        """Return whether pushes to a server are written to the spool, at least those of some queues."""
        return server in self._behind

    def fall_behind(self, server: str, reason: str) -> bool:
        """From now on, write the pushes to a server to the spool. Returns True."""
        if server not in self._behind:
            self._news.append((server, self.spool.path, reason))  # logged after the transaction: a handler may push
        self._behind[server] = _Behind(reason)
        return True

    def forget(self, server: str) -> None:
        """Send the next pushes to a server again."""
        self._behind.pop(server, None)

    def failed(self, server: str, reason: str) -> None:
        """Note that a server did not reply, and let the relay ask for it."""
        self.fall_behind(server, reason)
        self._start_relay()

    def swept(self, server: str) -> None:
        """Note that the relay has moved the rows of a server; called under the lock of the spool."""
        places = self.spool.places(server)
        behind = self._behind.get(server)
        if places and behind:  # refused rows
            self._behind[server] = _Behind(behind.reason, places)  # in place: no push may overtake them
        else:
            self.forget(server)
            logger.info("server %s replies again: pushes are sent to it", server)

    def servers(self) -> set[str]:
        """Return the servers that the relay asks for: those with rows, and those that did not reply."""
        return self.spool.servers() | self._behind.keys()

    def rest(self) -> bool:
        """End the relay if there is nothing to move; returns whether it ends."""
        with self.spool.lock, suppress(SpoolUnusable):  # which the relay reports
            if not self.spool.servers():
                with self._starting:
                    if not self._behind:
                        self._relay = None
                        return True
        return False

    def watch(self) -> float:
        """Start the relay if the file has rows; return the seconds until the next call."""
        try:
            wanted = bool(self.spool.servers())
        except SpoolUnusable:
            wanted = True  # the relay reports it, once a minute
        if wanted:
            self._start_relay()
        return IDLE_SECONDS

    def service(self) -> Loop:
        """Return the service of a worker, which moves the rows of all processes of its machine."""
        return Loop("offsider-spool-watch", self.watch, self._config.handle_error, finish=self.stop)

    def stop(self) -> None:
        """End the relay after its current step."""
        relay = self._relay
        if relay is not None:
            relay.stop()
            relay.join(IDLE_SECONDS)

    def _start_relay(self) -> None:
        with suppress(IndexError):
            while True:
                logger.warning("server %s: pushes are written to the spool %s until it replies: %s", *self._news.pop())
        with self._starting, suppress(RuntimeError):  # at its exit, a process can start no threads
            if self._relay is None or not self._relay.alive:
                self._relay = SpoolRelay(self._config, self)
                self._relay.start()

    def _report_lost(self) -> None:
        if self._pid != this_process.pid:
            return  # the lock of a forked child may be held for ever
        if number := sum(count for count, _ in self.spool.waiting().values()):
            logger.error("the process ends, and the spool in memory with %s is lost", counted(number, "push"))


class _Turn:
    """One try to store groups: those to send now, and those to write to the spool.

    Attributes:
        sent: the groups to send.
        entries: the others by index, and those that could not be sent.
    """

    def __init__(
        self,
        spooling: Spooling,
        server: Installation,
        groups: Groups,
        indexes: Collection[int],
        outcomes: list[Outcome],
    ) -> None:
        self._spooling = spooling
        self._outcomes = outcomes
        self._server = server.name
        self._groups = groups
        self.entries: dict[int, SpoolEntry] = {}
        for index in indexes:
            reason = spooling.behind(self._server, groups[index])
            if reason and _can_wait(groups[index]):
                self._spool(index, reason, partial(spooling.behind, self._server, groups[index]))
        self._direct = [index for index in indexes if index not in self.entries]
        self.sent = [groups[index] for index in self._direct]

    def take(self, outcomes: Sequence[Outcome]) -> None:
        """Take the outcomes of the groups that were sent."""
        for index, outcome in zip(self._direct, outcomes, strict=True):
            self._outcomes[index] = outcome
            if not isinstance(outcome, RedisUnavailable):
                continue
            reason = str(outcome)
            if not outcome.ambiguous and _can_wait(self._groups[index]):
                self._spool(index, reason, partial(self._spooling.fall_behind, self._server, reason))
            else:
                self._spooling.failed(self._server, reason)

    def finish(self) -> Collection[int]:
        """Set the outcomes of entries; return the indexes of those to send because the server replies again."""
        for index, entry in self.entries.items():
            self._outcomes[index] = ()
            if entry.error is not None:
                self._outcomes[index] = error = RedisUnavailable(
                    f"{entry.reason}; {entry.error}", ambiguous=entry.is_in_doubt
                )
                error.__cause__ = entry.error
                if not isinstance(entry.error, SpoolFull) and not entry.is_in_doubt and index not in self._direct:
                    # The server may reply, and no order can be kept with rows that cannot be written.
                    self._spooling.forget(self._server)
                    entry.is_skipped = True
        return [index for index, entry in self.entries.items() if entry.is_skipped]

    def _spool(self, index: int, reason: str, decide: Callable[[], object]) -> None:
        rows = [StoredPush.of(job, self._server) for job in self._groups[index]]
        self.entries[index] = SpoolEntry(rows, reason, decide)


def _can_wait(jobs: Sequence[Prepared]) -> bool:
    """Whether jobs can be stored later: a batch must know its members when its block ends."""
    return not any("bid" in job.payload for job in jobs)


class SpoolRelay(Relay):
    """The relay of a spool: runs while there is something to move."""

    def __init__(self, config: Config, spooling: Spooling) -> None:
        super().__init__(config, spooling.spool)
        self._spooling = spooling
        self._goes_round = False
        self._installations: dict[str, Installation] = {}

    def tick(self) -> float | None:
        self._goes_round = False
        pause = super().tick()
        return None if self._spooling.rest() else 0.0 if self._goes_round else pause

    def _sweep(self, server: Installation) -> bool:
        leads = super()._sweep(server)
        if self._spooling.is_behind(server.name):
            with self._spooling.spool.lock:  # pushes wait: for one batch at most
                if len(self._source.read(server.name, self._last, BATCH)) < BATCH:
                    # Without the lease: another process may never see the end of the rows of this one.
                    self._move(server)
                    self._spooling.swept(server.name)
                else:
                    self._goes_round |= leads
        return leads

    def _servers(self) -> Sequence[Installation]:
        try:
            names = self._spooling.servers()
            if not names <= self._config.servers.keys():
                self._report_unknown()
        except SpoolUnusable as error:
            self._failed("the database", error)
            return ()
        return [self._impatient(name) for name in names if name in self._config.servers]

    def _impatient(self, name: str) -> Installation:
        """Return a server with connections of its own, which have the timeout of pushes: these wait for the relay."""
        if name not in self._installations:
            server = self._installations[name] = Installation(self._config, name)
            seconds = min(server.settings.socket_timeout_seconds, self._config.client.push_timeout_seconds)
            server.settings = replace(server.settings, socket_timeout_seconds=seconds)
        return self._installations[name]

    def finish(self) -> None:
        super().finish()
        for server in self._installations.values():
            server.redis.close()
