"""The relay: moves rows of an outbox or a spool to Redis, in the order of their ids.

One process at a time does this, under a lease on each server. For each server that this process knows:

1. Read a batch of rows.
2. Store their jobs, each once: a mark in Redis remembers for a day that a row was stored.
3. Delete the rows that were stored. A crash before that repeats the batch, and the marks prevent duplicates.
4. Repeat until no rows are left. Then wait for a notification, or a second.

A refused row stays, and so do later rows of its queue. Other rows pass, and so does the rest of the schedule. While
Redis or the database is unavailable, all rows stay. The lease only saves work: two relays at once store nothing twice
and keep the order.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.client.delivery import read_reply, storing_call
from offsider.client.relay_source import QUEUE
from offsider.config.hooks import Prepared, effects_of
from offsider.config.installation import Installation
from offsider.core.compression import decode_plain
from offsider.core.errors import ConfigurationError, QueueFull, RedisFailure, RedisRefused
from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.runtime.middleware import Push
from offsider.runtime.service import Loop
from offsider.storage.leases import hold_lease, release
from offsider.storage.redis_errors import REROUTE
from offsider.storage.store_once import PUSH_ONCE, Transfer, run_once, store_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsider.client.relay_source import Source, StoredPush
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

BATCH = 100
#: Time between two reads of the table. PostgreSQL ends it early.
POLL_SECONDS = 1.0
LEASE_SECONDS = 10.0
#: Pause of a process without the lease.
IDLE_SECONDS = 2.0
#: Minimum time between two reports of one lasting failure, and between two searches for rows of unknown servers.
REPORT_SECONDS = 60.0


class Relay(Loop):
    """The relay of one process.

    Args:
        config: its servers, push guard and error handlers.
        source: the rows.
    """

    def __init__(self, config: Config, source: Source) -> None:
        super().__init__(f"offsider-{source.noun}", self.tick, config.handle_error, finish=self.finish)
        self._config = config
        self._source = source
        self._lease = f"{source.noun}:{source.identity}"
        self._holder = new_jid()
        self._led: dict[str, Installation] = {}
        self._report_at: dict[str, float] = {}
        self._last, self._blocked = 0, set[str]()  # of the sweep that runs

    def tick(self) -> float | None:
        """Move all rows of all servers; return the seconds until the next tick."""
        leases = [self._relay(server) for server in self._servers()]
        if not any(leases):
            self._close()  # notifications would gather in it
            return IDLE_SECONDS
        try:
            self._report_unknown()
            return 0.0 if self._source.wait(POLL_SECONDS) else POLL_SECONDS
        except Exception as error:  # noqa: BLE001  # of any database driver
            self._failed("the database", error)
            return POLL_SECONDS

    def _relay(self, server: Installation) -> bool:
        """Move all rows of a server. False if another process has the lease."""
        try:
            return self._sweep(server)
        except RedisFailure as error:
            self._failed(f"server {server.name}", error)
        except Exception as error:  # noqa: BLE001  # of any database driver
            self._failed("the database", error)
        return True

    def _sweep(self, server: Installation) -> bool:
        """Move all rows of a server under the lease. False if another process has it."""
        began, self._last, self._blocked = time.time(), 0, set[str]()
        while not self.stopping:
            if not hold_lease(server.redis, self._lease, self._holder, LEASE_SECONDS):
                return False
            self._led[server.name] = server
            rows = self._move(server)
            if len(rows) < BATCH or rows[-1].created_at > began:
                break  # newer rows may follow for ever; a transaction that commits late has added one with a lower id
        return True

    def _move(self, server: Installation) -> Sequence[StoredPush]:
        """Move the next batch of the sweep, and return its rows."""
        self._report_at.pop(f"server {server.name}", None)
        rows = self._source.read(server.name, self._last, BATCH)
        stored: list[int] = []
        try:
            stored.extend(row.id for row in self._store(server, rows, self._blocked))
        finally:
            if stored:
                self._source.delete(stored)
        self._report_at.pop("the database", None)
        self._last = rows[-1].id if rows else self._last
        return rows

    def _store(self, server: Installation, rows: Sequence[StoredPush], blocked: set[str]) -> Iterator[StoredPush]:
        """Store the jobs of rows, except for blocked places; yield the rows that are done."""
        plain: list[StoredPush] = []
        for row in rows:
            if row.place in blocked:
                continue
            if not row.guarded and not self._config.push_effects:
                plain.append(row)
                continue
            try:
                job = self._prepared(row)
            except Exception as error:  # noqa: BLE001 - raised by an extension; it concerns this row only
                self._accepted(server, row, error, blocked)
                continue
            if not job.by_script:
                plain.append(row)
                continue
            yield from self._store_plain(server, plain, blocked)
            plain = []
            if row.place not in blocked and self._accepted(
                server, row, self._store_by_script(server, row, job), blocked
            ):
                yield row
        yield from self._store_plain(server, plain, blocked)

    def _store_plain(self, server: Installation, rows: Sequence[StoredPush], blocked: set[str]) -> Iterator[StoredPush]:
        if rows:
            transfers = [
                Transfer(row.jid, self._hop(row), row.place, row.payload, "" if row.score is None else repr(row.score))
                for row in rows
            ]
            for row, refusal in zip(rows, store_once(server.redis, transfers, PUSH_ONCE), strict=True):
                if self._accepted(server, row, refusal, blocked):
                    yield row

    def _prepared(self, row: StoredPush) -> Prepared:
        payload = decode_plain(row.payload)
        queue = row.place.removeprefix(QUEUE) if row.score is None else ""
        effects = effects_of(self._config.push_effects, Push(payload, server=row.server), row.score)
        return Prepared(payload, row.payload, queue, row.score, row.guarded, effects=effects)

    def _store_by_script(self, server: Installation, row: StoredPush, job: Prepared) -> Exception | None:
        """Let a script store the job of a row, or drop it; return why it can do neither."""
        guard = self._config.push_guard
        try:
            call = storing_call(server.redis.keys, [job], guard)
            is_first, reply = run_once(server.redis, row.jid, self._hop(row), call)
        except Exception as error:  # of the guard too: it concerns this row only
            lost = isinstance(error, RedisFailure) and not isinstance(error, RedisRefused)
            if lost or isinstance(error, QueueFull) or getattr(error, "code", "") in REROUTE:
                raise  # the server refuses every row
            return error
        if is_first:
            read_reply([job], reply, guard)  # logs a duplicate
        return None

    def _accepted(self, server: Installation, row: StoredPush, refusal: Exception | None, blocked: set[str]) -> bool:
        place = f"{row.place} of server {server.name}"
        if refusal is None:
            self._report_at.pop(place, None)
            return True
        if row.score is None:  # the schedule has no order
            blocked.add(row.place)
        self._report(
            place,
            ConfigurationError(f"{self._source.noun} row {row.id} (JID-{row.jid}) was not moved to Redis: {refusal}"),
        )
        return False

    def _report_unknown(self) -> None:
        """Report rows for servers that are not in this process's configuration, once a minute."""
        now = time.monotonic()
        if now < self._report_at.get("unknown servers", 0.0):
            return
        self._report_at["unknown servers"] = now + REPORT_SECONDS
        for server, (count, _) in self._source.waiting().items():
            if server not in self._config.servers:
                logger.error(
                    "%s of the %s for the server %r, which is not configured in this process: add it to the "
                    "configuration",
                    counted(count, "row"),
                    self._source.noun,
                    server,
                )

    def _failed(self, what: str, error: Exception) -> None:
        self._report(what, error)
        if not isinstance(error, RedisFailure):
            self._close()

    def _report(self, what: str, error: Exception) -> None:
        """Report the first of consecutive failures, then one per minute."""
        now = time.monotonic()
        if now >= self._report_at.get(what, 0.0):
            self._report_at[what] = now + REPORT_SECONDS
            self._config.handle_error(error, {"context": f"relaying the {self._source.noun}: {what}"})

    def finish(self) -> None:
        """Release the lease, so that another process continues at once, and close the connection."""
        for server in self._led.values():
            with suppress(RedisFailure):
                release(server.redis, server.redis.keys.lease(self._lease), self._holder)
        self._close()

    def _hop(self, row: StoredPush) -> str:
        return f"{self._source.noun}-{row.id}"

    def _servers(self) -> Sequence[Installation]:
        return [Installation.of(self._config, name) for name in self._config.servers]

    def _close(self) -> None:
        with suppress(Exception):  # it may be broken
            self._source.close()
