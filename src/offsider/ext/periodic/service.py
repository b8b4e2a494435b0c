"""Pushes the job of each tick at its time, once among all processes.

1. Look: up to when is each job dealt with, by the server's clock, what was added at run time, what is paused.
2. What is due is claimed, one tick at a time. Who has the turn prepares the job, with client middleware; the claim then
   notes the tick and pushes the job in one step. Ticks that are older than ``grace_seconds`` are skipped and told.
3. Sleep until the next tick of all. Somebody's change by hand ends the sleep.

Every process does so, whatever its own clock says, and no leader is needed. A process that dies in between has claimed
or has not; others take over when its turn has run out. Each process knows the entries of its own version, so two
versions side by side push the ticks of both, and a tick that both know once.

A worker that is quiet goes on until it stops: it pushes, and runs nothing. A job that waits is late, a tick that nobody
claims is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from offsider.client import Client
from offsider.core.errors import ConfigurationError, RedisFailure, RedisUnavailable, UnknownJob
from offsider.core.options import merge_options
from offsider.core.wording import counted
from offsider.ext.periodic.alarm import Alarm
from offsider.ext.periodic.entry import Entry
from offsider.ext.periodic.homes import Homes
from offsider.ext.periodic.identity import here
from offsider.ext.periodic.store import TURN_SECONDS, Claimed, Line, Looked, PeriodicStore
from offsider.jobs import registry
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from offsider.client.prepared import Prepared
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

#: After a failure of the server.
OUTAGE_SECONDS = 1.0
#: How long ``main`` is not asked whose a tick is after it has failed: it may hang, and others are due as well.
HOMES_AWAY_SECONDS = 30.0
#: How often a process tells what is registered in it.
PUBLISH_SECONDS = 60.0
#: From then on a tick is late enough for a warning.
LATE_SECONDS = 10.0
#: More skipped ticks of one job than this are not counted one by one.
MOST_SKIPPED = 1000


class PeriodicService:
    """The service of one worker process.

    Args:
        config: its clients prepare the jobs.
        redis: where ticks are claimed.
        entries: what is registered in this process, of that whose jobs go to that server.
        homes: with several servers, says which one sees to a tick.
    """

    def __init__(self, config: Config, redis: Redis, entries: Sequence[Entry], homes: Homes | None = None) -> None:
        self._config = config
        self._client = Client(config, redis)
        self._registered = {entry.name: entry for entry in entries}
        self._added: dict[str, tuple[bytes, Entry | None]] = {}
        self._remembered = dict.fromkeys(self._registered, 0)
        self._due: dict[str, tuple[int, int | None]] = {}
        self._reported: dict[str, int] = {}
        self._store = PeriodicStore(redis)
        self._homes = homes
        #: Up to when other servers have dealt with jobs; None: to be asked for.
        self._elsewhere: dict[str, int] | None = None if homes is not None else {}
        #: Ticks that were claimed without having asked.
        self._unasked: dict[str, int] = {}
        self._ask_homes_at = 0.0
        self._keys = redis.keys
        self._alarm = Alarm(redis, self._store.revision)
        self._me = here()
        self._publish_at = self._since = 0.0
        self._is_away = False
        self._ending = threading.Event()
        self._loop = Loop("offsider-periodic", self._turn, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.join = self._loop.join

    def stop(self) -> None:
        self._ending.set()
        self._alarm.end()
        self._loop.wake()

    def _turn(self) -> float | None:
        if not self._ending.is_set():
            self._alarm.sleep(self.tick())
        if not self._ending.is_set():
            return 0.0
        self._alarm.close()
        return None

    def tick(self) -> float:
        """Push what is due; answers the seconds until there is more to do."""
        try:
            pause_seconds = self._work()
        except RedisFailure as error:
            if not self._is_away:
                self._config.handle_error(error, {"context": "periodic jobs"})
            self._is_away = True
            return OUTAGE_SECONDS
        if self._is_away:
            logger.info("periodic jobs: Redis is online")
        self._is_away = False
        return pause_seconds

    def _work(self) -> float:
        self._alarm.watch()
        elsewhere = self._dealt_with_elsewhere()
        looked = self._store.look({name: max(tick, elsewhere.get(name, 0)) for name, tick in self._remembered.items()})
        self._remembered.update((name, tick) for name, tick in looked.ticks.items() if name in self._registered)
        self._publish(looked)
        pauses = [
            self._serve(entry, looked)
            for entry in (*self._registered.values(), *self._read(looked))
            if entry.name not in looked.paused
        ]
        return max(0.0, min([*pauses, self._alarm.longest_seconds]))

    def _dealt_with_elsewhere(self) -> dict[str, int]:
        homes = self._homes_to_ask()
        if homes is not None:
            try:
                for name, tick in list(self._unasked.items()):
                    homes.is_here(name, tick)
                    del self._unasked[name]
                if self._elsewhere is None:
                    self._elsewhere = homes.elsewhere()
            except RedisFailure as error:
                self._do_without_homes(error)
        return self._elsewhere or {}

    def _is_here(self, name: str, tick: int) -> bool:
        """Whether a tick is for this server. Nobody waits for ``main``: a tick that nobody claims is lost."""
        if self._homes is None:
            return True
        homes = self._homes_to_ask()
        if homes is None:
            self._unasked[name] = tick
            return True
        try:
            here = homes.is_here(name, tick)
        except RedisFailure as error:
            self._do_without_homes(error)
            self._unasked[name] = tick
            return True
        if not here:
            self._elsewhere = {**(self._elsewhere or {}), name: tick}
        return here

    def _homes_to_ask(self) -> Homes | None:
        return self._homes if time.monotonic() >= self._ask_homes_at else None

    def _do_without_homes(self, error: RedisFailure) -> None:
        self._ask_homes_at = time.monotonic() + HOMES_AWAY_SECONDS
        logger.warning(
            "periodic jobs: which server sees to a tick cannot be asked for %g s, so that one may come twice while a "
            "deploy moves its job to another server: %s",
            HOMES_AWAY_SECONDS,
            error,
        )

    # ------------------------------------------------------------------------------- one entry
    def _serve(self, entry: Entry, looked: Looked) -> float:
        """See to an entry; answers in how many seconds it wants to be seen to again."""
        if self._ending.is_set():
            return 0.0
        last = max(looked.ticks[entry.name], (self._elsewhere or {}).get(entry.name, 0))
        tick = self._next_after(entry, last)
        if tick is None:
            return self._alarm.longest_seconds
        now = looked.now()
        if tick > now:
            return tick - now
        if tick <= now - entry.grace_seconds:
            self._skip(entry, last, now)
            return 0.0
        return self._fire(entry, tick, looked)

    def _next_after(self, entry: Entry, last: int) -> int | None:
        known = self._due.get(entry.name)
        if known is None or known[0] != last:
            known = self._due[entry.name] = (last, entry.ticks.next_after(last))
        return known[1]

    def _skip(self, entry: Entry, last: int, now: float) -> None:
        """Pass over what is too old, and tell it, once among all processes."""
        oldest = now - entry.grace_seconds
        missed = list(islice(entry.ticks.ticks_within(last, oldest), MOST_SKIPPED))
        until = missed[-1] if len(missed) < MOST_SKIPPED else int(oldest)
        line = Line("skipped", until, now, count=len(missed), by=self._me)
        if self._store.claim(entry.name, line) is Claimed.DONE:
            logger.warning(
                "periodic job %s: skipped %s%s, the first of %s, since no worker was there within %g s",
                entry.name,
                "at least " if len(missed) == MOST_SKIPPED else "",
                counted(len(missed), "tick"),
                entry.ticks.local(missed[0]).isoformat(),
                entry.grace_seconds,
            )

    def _fire(self, entry: Entry, tick: int, looked: Looked) -> float:
        if not self._is_here(entry.name, tick):
            return 0.0
        wait_seconds = self._store.take_turn(entry.name, self._me)
        if wait_seconds:
            return wait_seconds
        try:
            job = self._prepare(entry, tick)
            claimed, jid = self._claim(entry, job, Line("tick", tick, looked.now(), by=self._me))
        except RedisUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - middleware of users may raise anything; others are due as well
            self._report(entry, tick, error)
            return TURN_SECONDS
        if claimed is Claimed.DONE:
            self._tell(entry, tick, jid, looked.now() - tick)
        return 0.0 if claimed is not Claimed.EARLY else 0.001

    def _tell(self, entry: Entry, tick: int, jid: str, late_seconds: float) -> None:
        when = entry.ticks.local(tick).isoformat()
        if not jid:
            logger.info("periodic job %s: the job of %s was stopped before it was pushed", entry.name, when)
        elif late_seconds < LATE_SECONDS:
            logger.info("periodic job %s: pushed job %s of %s", entry.name, jid, when)
        else:
            logger.warning("periodic job %s: pushed job %s of %s, %.0f s late", entry.name, jid, when, late_seconds)

    def _claim(self, entry: Entry, job: Prepared | None, line: Line) -> tuple[Claimed, str]:
        """Claim the tick and push its job; answers what became of it, and the jid of what was pushed."""
        stopped = replace(line, how="stopped")
        if job is None:
            return self._store.claim(entry.name, stopped), ""
        pushed, guard = replace(line, jid=job.jid), self._config.push_guard
        if guard is None or not job.guarded:
            return self._store.claim(entry.name, pushed, job), job.jid
        claimed, reply = self._store.claim_guarded(entry.name, pushed, guard.call(self._keys, [job]))
        if claimed is Claimed.DONE and guard.refused([job], reply):
            self._store.correct(entry.name, pushed, stopped)
            return claimed, ""
        return claimed, job.jid

    def _prepare(self, entry: Entry, tick: int) -> Prepared | None:
        # To no other server, whatever rules say by now: the claim and the job are one step, on this one.
        return self._client.prepare(self._client.build({**entry.item(tick), "server": self._config.server}))

    def _report(self, entry: Entry, tick: int, error: Exception) -> None:
        """Once for each tick: it is tried again until it is too old."""
        if self._reported.get(entry.name) != tick:
            self._reported[entry.name] = tick
            self._config.handle_error(error, {"context": f"periodic job {entry.name}", "tick": tick})

    # --------------------------------------------------------------------------------- entries
    def _read(self, looked: Looked) -> list[Entry]:
        """What was added at run time; what is registered in code under the same name stands above it."""
        before, self._added = self._added, {}
        for name in before.keys() - looked.added.keys() - self._registered.keys():
            self._due.pop(name, None)
            self._reported.pop(name, None)
        for name, raw in looked.added.items():
            known = before.get(name)
            self._added[name] = known if known is not None and known[0] == raw else (raw, self._parse(name, raw))
        found = (entry for _, entry in self._added.values() if entry is not None)
        return [entry for entry in found if entry.name not in self._registered]

    def _parse(self, name: str, raw: bytes) -> Entry | None:
        self._due.pop(name, None)
        if name in self._registered:
            logger.warning("periodic job %s was added at run time and is registered in code too, which holds", name)
            return None
        try:
            return Entry.from_json(name, raw)
        except ConfigurationError as error:
            self._config.handle_error(error, {"context": "periodic jobs"})
            return None

    def _publish(self, looked: Looked) -> None:
        if not self._registered or looked.seen_at < self._publish_at:
            return
        self._since = self._since or looked.at
        self._publish_at = looked.seen_at + PUBLISH_SECONDS
        told = [with_options(entry, self._config) for entry in self._registered.values()]
        self._store.publish(told, self._since, looked.at)


def with_options(entry: Entry, config: Config) -> Entry:
    """The entry with the options of its declared job, for those who do not know that job."""
    try:
        declared = registry.find(entry.job).stored_options(config)
    except UnknownJob:
        return entry
    return replace(entry, options=merge_options(declared, entry.options))
