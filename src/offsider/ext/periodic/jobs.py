"""Read and change periodic jobs from any process."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, OffsiderError, RedisFailure
from offsider.core.options import JobOptions
from offsider.core.suggestions import suggest
from offsider.ext.periodic.entry import REDIS, Entry, make
from offsider.ext.periodic.registry import defaults_of, entries_of, refuse_problem, registered_in
from offsider.ext.periodic.service import with_options
from offsider.ext.periodic.store import HistoryLine, PeriodicStore, Servers, claimer_id
from offsider.inspector.all_servers import query_all, split
from offsider.storage import clocks

if TYPE_CHECKING:
    from offsider.config.config import Config


class UnknownPeriodicJob(OffsiderError, LookupError):
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
    """

    entry: Entry
    paused: bool
    versions: int
    last: HistoryLine | None
    _store: PeriodicStore = field(repr=False, compare=False)
    _here: Installation = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """Its unique name."""
        return self.entry.name

    @property
    def server(self) -> str:
        """The name of its server."""
        return self._here.name

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

    def pause(self) -> bool:
        """Push nothing until `resume`. Return False if it was paused already."""
        return self._store.pause(self.name)

    def resume(self) -> bool:
        """Resume with the next tick. Return False if it was not paused."""
        return self._store.resume(self.name)

    def run(self, by: str = "") -> str:
        """Push its job now, even while it is paused. The schedule does not change.

        Args:
            by: the person or program, for the history.

        Returns:
            The jid; empty if client middleware canceled the push.
        """
        now = int(clocks.look(self._here.redis)[0])
        # An operator has no session of the outbox.
        jid = Client(self._here).push({**self.entry.item(now), "after_commit": True})
        self._store.note(self.name, HistoryLine("run", now, now, jid, by=by or f"{getpass.getuser()}@{claimer_id()}"))
        return jid

    def remove(self) -> None:
        """Remove it from all processes.

        Raises:
            ConfigurationError: it is registered in code or in a file; remove it there.
        """
        if not self._store.remove(self.name):
            raise ConfigurationError(
                f"periodic job {self.name!r} is registered in {self.entry.source}: remove it there, or pause it"
            )
        servers = Servers.of(self._here)
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
        here = Installation.of(config)
        names = list(here.config.servers) if server is None else [server]
        self._here = here.for_server(names[0])
        self._store = PeriodicStore(self._here.redis)
        self.on_several_servers = len(names) > 1

    def look(self) -> tuple[list[PeriodicJob], Mapping[str, RedisFailure]]:
        """Return the jobs of all reachable servers, and the unreachable servers. Raises RedisFailure if none is."""
        if not self.on_several_servers:
            return list(self._of_one_server()), {}
        found, away = split(query_all(self._here, lambda there: list(PeriodicJobs(there, server=there.name))))
        return [each for jobs in found.values() for each in jobs], away

    def __iter__(self) -> Iterator[PeriodicJob]:
        return iter(self.look()[0])

    def _of_one_server(self) -> Iterator[PeriodicJob]:
        versions, live = self._store.published(), self._store.live()
        declared = self._store.published(live)
        found = {entry.name: entry for entry in self._store.added()}
        found |= {name: known[0] for name, known in versions.items()}
        found |= {
            name: with_options(entry, self._here.config)
            for name, entry in registered_in(self._here).items()
            if name not in versions
        }
        paused, last = self._store.paused(), self._store.last_lines(sorted(found))
        for name in sorted(found):
            shown = len(declared.get(name, ())) if found[name].source != REDIS else bool(live)
            yield PeriodicJob(found[name], name in paused, int(shown), last.get(name), self._store, self._here)

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
        self,
        cron: str | None = None,
        job: object = None,
        *,
        every: float | timedelta | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        tz: str | None = None,
        grace_seconds: float | None = None,
        description: str = "",
        **options: Unpack[JobOptions],
    ) -> PeriodicJob:
        """Add a periodic job, or change one that was added at run time. All processes receive it immediately.

        Takes the arguments of `Periodic.register`.

        Raises:
            ConfigurationError: it is invalid, its arguments do not fit the job, or its name is registered in code or in
                a file.
        """
        entry = make(
            name,
            cron,
            job,
            every=every,
            options=options,
            args=tuple(args),
            kwargs=dict(kwargs or {}),
            tz=tz,
            grace_seconds=grace_seconds,
            description=description,
            defaults=defaults_of(self._here.config),
            source=REDIS,
        )
        refuse_problem(entry, self._here.config)
        target = self._here.for_server(entry.server_of(self._here.config))
        others = [PeriodicStore(target.for_server(name).redis) for name in target.config.servers if name != target.name]
        store = PeriodicStore(target.redis)
        if entry.name in entries_of(target.config) or any(entry.name in each.published() for each in (store, *others)):
            raise ConfigurationError(f"periodic job {entry.name!r} is registered in code or in a file: change it there")
        store.add(with_options(entry, target.config))
        for other in others:  # it may have been on another server before
            other.remove(entry.name)
        return PeriodicJobs(target, server=target.name)[entry.name]
