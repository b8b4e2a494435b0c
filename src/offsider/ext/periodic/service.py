"""Push the job of each tick on time, once across all processes.

1. Read the last handled tick of each job by the server's clock, the jobs added at run time and the paused jobs.
2. Claim due ticks, one at a time. The process that has the lease prepares the job with client middleware; the claim
   then marks the tick as handled and pushes the job atomically. Ticks older than ``grace_seconds`` are skipped and
   logged.
3. Sleep until the next tick of any job, for at most five seconds, so that manual changes are noticed.

Every process does this, whatever its own clock says; there is no leader. If a process dies before its claim, another
one takes over when its lease expires. Each process knows the entries of its own version, so two versions side by side
push the ticks of both, and a tick that both know once.

A quiet worker keeps pushing until it stops: it pushes jobs but runs none. A waiting job is only late; an unclaimed tick
is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from offsider.client import Client
from offsider.client.delivery import read_reply, storing_call
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisUnavailable, UnknownJob
from offsider.core.options import merge_options
from offsider.core.wording import counted
from offsider.ext.periodic.entry import Entry
from offsider.ext.periodic.store import LEASE_SECONDS, Claimed, HistoryLine, Looked, PeriodicStore, Servers, claimer_id
from offsider.jobs import registry
from offsider.logs.structured import about_payload
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.hooks import Prepared

logger = logging.getLogger("offsider")

#: Maximum sleep.
MAX_SLEEP_SECONDS = 5.0
#: Delay after a failure of the server.
OUTAGE_SECONDS = 1.0
#: How often a process publishes its entries.
PUBLISH_SECONDS = 60.0
#: Delay of a tick that logs a warning.
LATE_SECONDS = 10.0
#: Maximum skipped ticks of one job that are counted exactly.
MAX_SKIPPED = 1000


class PeriodicService(Loop):
    """The service of one worker process.

    Args:
        installation: the server on which ticks are claimed.
        entries: the entries registered in this process whose jobs go to that server.
        servers: the assignment of ticks, with several servers.
    """

    def __init__(self, installation: Installation, entries: Sequence[Entry], servers: Servers | None = None) -> None:
        config, redis = installation.config, installation.redis
        self._config = config
        self._server = installation.name
        self._client = Client(installation)
        self._registered = {entry.name: entry for entry in entries}
        self._added: dict[str, tuple[bytes, Entry | None]] = {}
        self._remembered = dict.fromkeys(self._registered, 0)
        self._reported: dict[str, int] = {}
        self._store = PeriodicStore(redis)
        self._servers = servers
        self._keys = redis.keys
        self._me = claimer_id()
        self._publish_at = self._since = 0.0
        self._outage = Outage("periodic jobs", config)
        super().__init__("offsider-periodic", self.tick, config.handle_error)

    def tick(self) -> float:
        """Push due jobs; return the seconds until the next one."""
        with self._outage:
            return self._work()
        return OUTAGE_SECONDS

    def _work(self) -> float:
        elsewhere = self._handled_elsewhere()
        looked = self._store.look({name: max(tick, elsewhere.get(name, 0)) for name, tick in self._remembered.items()})
        self._remembered.update((name, tick) for name, tick in looked.ticks.items() if name in self._registered)
        self._publish(looked)
        pauses = [
            self._serve(entry, looked)
            for entry in (*self._registered.values(), *self._read(looked))
            if entry.name not in looked.paused
        ]
        return max(0.0, min([*pauses, MAX_SLEEP_SECONDS]))

    def _handled_elsewhere(self) -> Mapping[str, int]:
        return {} if self._servers is None else self._servers.handled_by_others()

    # ------------------------------------------------------------------------------- one entry
    def _serve(self, entry: Entry, looked: Looked) -> float:
        """Push or skip the due tick of an entry; return the seconds until it is due again."""
        if self.stopping:
            return 0.0
        last = max(looked.ticks[entry.name], self._handled_elsewhere().get(entry.name, 0))
        tick = entry.ticks.next_after(last)
        if tick is None:
            return MAX_SLEEP_SECONDS
        now = looked.now()
        if tick > now:
            return tick - now
        if tick <= now - entry.grace_seconds:
            self._skip(entry, last, now)
            return 0.0
        return self._fire(entry, tick, looked)

    def _skip(self, entry: Entry, last: int, now: float) -> None:
        """Skip ticks that are too old, and log it, once across all processes."""
        oldest = now - entry.grace_seconds
        missed = list(islice(takewhile(lambda tick: tick <= oldest, entry.ticks.ticks_after(last)), MAX_SKIPPED))
        until = missed[-1] if len(missed) < MAX_SKIPPED else int(oldest)
        line = HistoryLine("skipped", until, now, count=len(missed), by=self._me)
        if self._store.claim(entry.name, line)[0] is Claimed.DONE:
            self._store.missed(entry.name, len(missed))
            logger.warning(
                "periodic job %s: skipped %s%s, the first at %s: no worker was running within %g s",
                entry.name,
                "at least " if len(missed) == MAX_SKIPPED else "",
                counted(len(missed), "tick"),
                entry.ticks.local(missed[0]).isoformat(),
                entry.grace_seconds,
            )

    def _fire(self, entry: Entry, tick: int, looked: Looked) -> float:
        if self._servers is not None and not self._servers.is_assigned(entry.name, tick):
            return 0.0
        wait_seconds = self._store.take_lease(entry.name, self._me)
        if wait_seconds:
            return wait_seconds
        try:
            job = self._prepare(entry, tick)
            claimed, jid = self._claim(entry, job, HistoryLine("tick", tick, looked.now(), by=self._me))
        except RedisUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - user middleware may raise anything; other ticks are due
            self._report(entry, tick, error)
            return LEASE_SECONDS
        if claimed is Claimed.DONE:
            self._log(entry, tick, job if jid else None, looked.now() - tick)
        return 0.0 if claimed is not Claimed.EARLY else 0.001

    def _log(self, entry: Entry, tick: int, job: Prepared | None, late_seconds: float) -> None:
        when = entry.ticks.local(tick).isoformat()
        if job is None:
            logger.info("periodic job %s: client middleware canceled the push for the tick at %s", entry.name, when)
            return
        fields = about_payload(job.payload, job.queue)
        is_late = late_seconds >= LATE_SECONDS
        logger.log(
            logging.WARNING if is_late else logging.INFO,
            "periodic job %s: pushed job %s for the tick at %s%s",
            entry.name,
            job.jid,
            when,
            f", {late_seconds:.0f} s late" if is_late else "",
            extra={"fields": fields},
        )

    def _claim(self, entry: Entry, job: Prepared | None, line: HistoryLine) -> tuple[Claimed, str]:
        """Claim the tick and push its job; return the result, and the jid if a job was pushed."""
        stopped = replace(line, how="stopped")
        if job is None:
            return self._store.claim(entry.name, stopped)[0], ""
        pushed, guard = replace(line, jid=job.jid), self._config.push_guard
        claimed, reply = self._store.claim(entry.name, pushed, storing_call(self._keys, [job], guard))
        if claimed is Claimed.DONE and read_reply([job], reply, guard):
            self._store.replace_line(entry.name, pushed, stopped)
            return claimed, ""
        return claimed, job.jid

    def _prepare(self, entry: Entry, tick: int) -> Prepared | None:
        # Routing rules may have changed; claim and push are one step, so the job must go to this server.
        return self._client.prepare(self._client.build({**entry.item(tick), "server": self._server}))

    def _report(self, entry: Entry, tick: int, error: Exception) -> None:
        """Report an error once per tick; the tick is retried until it is too old."""
        if self._reported.get(entry.name) != tick:
            self._reported[entry.name] = tick
            self._config.handle_error(error, {"context": f"pushing periodic job {entry.name}", "tick": tick})

    # --------------------------------------------------------------------------------- entries
    def _read(self, looked: Looked) -> list[Entry]:
        """Return the entries added at run time, except names that are registered in code."""
        before, self._added = self._added, {}
        for name in before.keys() - looked.added.keys():
            self._reported.pop(name, None)
        for name, raw in looked.added.items():
            known = before.get(name)
            self._added[name] = known if known is not None and known[0] == raw else (raw, self._parse(name, raw))
        return [entry for _, entry in self._added.values() if entry is not None]

    def _parse(self, name: str, raw: bytes) -> Entry | None:
        if name in self._registered:
            logger.warning("periodic job %s was added at run time, but the one registered in code is used", name)
            return None
        try:
            return Entry.from_json(name, raw)
        except ConfigurationError as error:
            self._config.handle_error(error, {"context": "reading periodic jobs"})
            return None

    def _publish(self, looked: Looked) -> None:
        if looked.seen_at < self._publish_at:
            return
        self._since = self._since or looked.at
        self._publish_at = looked.seen_at + PUBLISH_SECONDS
        registered = [with_options(entry, self._config) for entry in self._registered.values()]
        if registered:
            self._store.publish(registered, self._since, looked.at)
        self._store.report_orphans(looked.at)


def with_options(entry: Entry, config: Config) -> Entry:
    """Add the options of the declared job to an entry, for processes that have not loaded that job."""
    try:
        declared = registry.find(entry.job).stored_options(config)
    except UnknownJob:
        return entry
    return replace(entry, options=merge_options(declared, entry.options))
