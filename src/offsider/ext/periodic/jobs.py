"""Read and change periodic jobs from any process."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Unpack

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisFailure, UnknownSubject
from offsider.core.suggestions import suggest
from offsider.ext.periodic.entry import REDIS, Entry, EntryOptions, make, refuse_problem, registered_in, registry_of
from offsider.ext.periodic.service import with_options
from offsider.ext.periodic.store import HistoryLine, Pause, PeriodicStore, Servers, claimer_id
from offsider.inspector.all_servers import query_all, split
from offsider.storage import clocks

if TYPE_CHECKING:
    from offsider.config.config import Config


class UnknownPeriodicJob(UnknownSubject):
    """Unknown periodic job; the message suggests a similar name."""


@dataclass(frozen=True)
class PeriodicJob:
    """The current state of a periodic job.

    Attributes:
        entry: the registered entry; if processes differ, the newest process's entry.
        paused: ticks push nothing.
        versions: number of different registrations of this name in live processes: 1, except during a deploy;
            0 if no live process pushes it.
        last: the latest line of its history.
        pause_origin: who paused it, when and why; None if it is not paused.
        seen_at: when a live process last had it, in epoch seconds; None if none ever did, as for one added at run time.
    """

    entry: Entry
    paused: bool
    versions: int
    last: HistoryLine | None
    pause_origin: Pause | None
    seen_at: float | None
    _store: PeriodicStore = field(repr=False, compare=False)
    _server: Installation = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its unique name."""
        return self.entry.name

    @property
    def server(self) -> str:
        """The name of its server."""
        return self._server.name

    def next_runs(self, count: int = 5, after: float | None = None) -> list[datetime]:
        """Return the next ticks in its time zone.

        Args:
            count: number of ticks.
            after: epoch seconds; default: now.
        """
        start = time.time() if after is None else after
        return [self.entry.ticks.local(tick) for tick in islice(self.entry.ticks.ticks_after(start), count)]

    def history(self) -> list[HistoryLine]:
        """Return the last ten ticks and manual actions, latest first."""
        return self._store.history(self.name)

    def pause(self, *, by: str = "", reason: str = "") -> bool:
        """Push nothing until `resume`. Return False if it was paused already."""
        return self._store.pause(self.name, by=by, reason=reason)

    def resume(self, *, by: str = "") -> bool:
        """Resume with the next tick. Return False if it was not paused."""
        return self._store.resume(self.name, by=by)

    def run(self, by: str = "") -> str:
        """Push its job now, even while it is paused. The schedule does not change.

        Args:
            by: the person or program, for the history.

        Returns:
            The jid; empty if client middleware canceled the push.
        """
        now = int(clocks.look(self._server.redis)[0])
        # An operator has no session of the outbox.
        jid = Client(self._server).push({**self.entry.item(now), "after_commit": True})
        self._store.note(self.name, HistoryLine("run", now, now, jid, by=by or f"{getpass.getuser()}@{claimer_id()}"))
        return jid

    def remove(self) -> None:
        """Remove it from all processes.

        Raises:
            ConfigurationError: a live process registers it in code or in a file; remove it there.
        """
        if not (self._store.remove(self.name) or (not self.versions and self._store.forget(self.name))):
            raise ConfigurationError(
                f"periodic job {self.name!r} is registered in {self.entry.source}: remove it there, or pause it"
            )
        servers = Servers.of(self._server)
        if servers is not None:
            servers.forget(self.name)


class PeriodicJobs:
    """All periodic jobs: registered in live processes, registered in this process, or added at run time.

    Iteration yields `PeriodicJob` by server and name, like `look`. A periodic job is on the server that gets its jobs.

    Args:
        config: the configuration with the servers; default: the process-wide configuration.
        server: only the jobs of this server; default: all servers of the configuration.

    Attributes:
        on_several_servers: covers several servers. While a deploy moves a job, it is on two of them.
    """

    def __init__(self, config: Config | Installation | None = None, *, server: str | None = None) -> None:
        installation = Installation.of(config)
        names = list(installation.config.servers) if server is None else [server]
        self._server = installation.for_server(names[0])
        self._store = PeriodicStore(self._server.redis)
        self.on_several_servers = len(names) > 1

    def look(self) -> tuple[list[PeriodicJob], Mapping[str, RedisFailure]]:
        """Return the jobs of all reachable servers, and the unreachable servers. Raises RedisFailure if none is."""
        if not self.on_several_servers:
            return list(self._of_one_server()), {}
        found, away = split(query_all(self._server, lambda each: list(PeriodicJobs(each, server=each.name))))
        return [each for jobs in found.values() for each in jobs], away

    def __iter__(self) -> Iterator[PeriodicJob]:
        return iter(self.look()[0])

    def _of_one_server(self) -> Iterator[PeriodicJob]:
        versions, live = self._store.published(), self._store.live()
        declared = self._store.published(live)
        seen = self._store.seen()
        found = {name: each.entry for name, each in seen.items()}
        found |= {entry.name: entry for entry in self._store.added()}
        found |= {name: known[0] for name, known in versions.items()}
        found |= {
            name: with_options(entry, self._server.config)
            for name, entry in registered_in(self._server).items()
            if name not in versions
        }
        paused, last = self._store.paused(), self._store.last_lines(sorted(found))
        for name in sorted(found):
            shown = len(declared.get(name, ())) if found[name].source != REDIS else bool(live)
            pause, seen_at = paused.get(name), seen[name].at if name in seen else None
            yield PeriodicJob(
                found[name], pause is not None, int(shown), last.get(name), pause, seen_at, self._store, self._server
            )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> PeriodicJob | None:
        """Return a job by name. Raises RedisFailure if it is not found and a server is unreachable."""
        every, away = self.look()
        found = next((each for each in every if each.name == name), None)
        if found is None and away:
            raise next(iter(away.values()))
        return found

    def __getitem__(self, name: str) -> PeriodicJob:
        """Return a job by name. Raises UnknownPeriodicJob, and RedisFailure like `find`."""
        found = self.find(name)
        if found is None:
            near = suggest(name, [each.name for each in self])
            raise UnknownPeriodicJob(f"unknown periodic job {name}{near}")
        return found

    def add(
        self, cron: str | None = None, job: object = None, *, name: str | None = None, **options: Unpack[EntryOptions]
    ) -> PeriodicJob:
        """Add a periodic job, or change one that was added at run time. All processes receive it immediately.

        Takes the arguments of `Periodic.register`.

        Raises:
            ConfigurationError: it is invalid, its arguments do not fit the job, or its name is registered in code or in
                a file.
        """
        defaults = registry_of(self._server.config).defaults
        return self.save(make(name, cron, job, options, defaults=defaults, source=REDIS))

    def save(self, entry: Entry) -> PeriodicJob:
        """Store an entry, or replace one that was added at run time, as `add` does."""
        refuse_problem(entry, self._server.config)
        target = self._server.for_server(entry.server_of(self._server.config))
        others = [PeriodicStore(target.for_server(name).redis) for name in target.config.servers if name != target.name]
        store = PeriodicStore(target.redis)
        if entry.name in registry_of(target.config).entries or any(
            entry.name in each.published() for each in (store, *others)
        ):
            raise ConfigurationError(f"periodic job {entry.name!r} is registered in code or in a file: change it there")
        store.add(with_options(entry, target.config))
        for other in others:  # it may have been on another server before
            other.remove(entry.name)
        return PeriodicJobs(target, server=target.name)[entry.name]
