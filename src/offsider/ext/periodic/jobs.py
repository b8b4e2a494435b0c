"""The periodic jobs of an installation, to look at and to act on, from any process."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from offsider.client import Client
from offsider.core.errors import ConfigurationError, OffsiderError, RedisFailure
from offsider.core.options import JobOptions
from offsider.ext.periodic.entry import REDIS, Entry, make
from offsider.ext.periodic.homes import Homes
from offsider.ext.periodic.identity import here
from offsider.ext.periodic.register import entries_of, registered_in, settings_of
from offsider.ext.periodic.service import with_options
from offsider.ext.periodic.store import Line, PeriodicStore
from offsider.inspector.everywhere import ask_all, split
from offsider.storage import clocks
from offsider.wiring.default import default_config
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from offsider.wiring.config import Config


class UnknownPeriodicJob(OffsiderError, LookupError):
    """No periodic job has this name; the message names the nearest."""


@dataclass(frozen=True)
class PeriodicJob:
    """A periodic job as it stands.

    Attributes:
        entry: what is registered; of the latest processes where they differ.
        paused: none of its ticks push.
        versions: how many different registrations of this name live processes have: 1 but for the time of a deploy;
            0 when only this process knows it.
        last: the latest line of its history.
    """

    entry: Entry
    paused: bool
    versions: int
    last: Line | None
    _store: PeriodicStore = field(repr=False, compare=False)
    _config: Config = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def server(self) -> str:
        """The name of the server where it is."""
        return self._config.server

    def next_runs(self, count: int = 5, after: float | None = None) -> list[datetime]:
        """Its next ticks, in its time zone.

        Args:
            count: how many.
            after: epoch seconds; default: now.
        """
        start = time.time() if after is None else after
        return [self.entry.ticks.local(tick) for tick in islice(self.entry.ticks.ticks_after(start), count)]

    def history(self) -> list[Line]:
        """The last ten ticks and what was done by hand, the latest first."""
        return self._store.history(self.name)

    def pause(self) -> bool:
        """Let no tick push until `resume`; False when that was so already."""
        return self._store.pause(self.name)

    def resume(self) -> bool:
        """Let it go on with its next tick; False when it was not paused."""
        return self._store.resume(self.name)

    def run(self, by: str = "") -> str | None:
        """Push its job now, whatever the time, also while it is paused; its ticks are as before.

        Args:
            by: who wants it, for the history.

        Returns:
            The jid; None when client middleware stopped the job.
        """
        now = int(clocks.look(self._config.shared_redis())[0])
        jid = Client(self._config).push(self.entry.item(now))
        self._store.note(self.name, Line("run", now, now, jid or "", by=by or f"{getpass.getuser()}@{here()}"))
        return jid

    def remove(self) -> None:
        """Remove it from all processes.

        Raises:
            ConfigurationError: it is registered in code or in a file, and has to be removed there.
        """
        if not self._store.remove(self.name):
            raise ConfigurationError(
                f"periodic job {self.name!r} is registered in {self.entry.source}: remove it there, or pause it"
            )
        homes = Homes.of(self._config)
        if homes is not None:
            homes.forget(self.name)


class PeriodicJobs:
    """All periodic jobs: those of live processes, of this one, and those that were added at run time.

    Iterating gives `PeriodicJob`, server by server, by name, as `look` does. One is where its jobs are pushed to.

    Args:
        config: whose servers; default: this process's.
        server: those of this server alone; default: those of every server of the configuration.

    Attributes:
        on_several_servers: those of several servers are here; while a deploy moves one, it is on two of them.
    """

    def __init__(self, config: Config | None = None, *, server: str | None = None) -> None:
        config = config if config is not None else default_config()
        names = list(config.servers) if server is None else [server]
        self._config = config.for_server(names[0])
        self._store = PeriodicStore(self._config.shared_redis())
        self.on_several_servers = len(names) > 1

    def look(self) -> tuple[list[PeriodicJob], Mapping[str, RedisFailure]]:
        """Those of the servers that answer, and the servers that do not. Raises RedisFailure when none does."""
        if not self.on_several_servers:
            return list(self._here()), {}
        found, away = split(ask_all(self._config, lambda there: list(PeriodicJobs(there, server=there.server))))
        return [each for jobs in found.values() for each in jobs], away

    def __iter__(self) -> Iterator[PeriodicJob]:
        return iter(self.look()[0])

    def _here(self) -> Iterator[PeriodicJob]:
        versions = self._store.published()
        found = {entry.name: entry for entry in self._store.added()}
        found |= {name: known[0] for name, known in versions.items()}
        found |= {
            name: with_options(entry, self._config)
            for name, entry in registered_in(self._config).items()
            if name not in versions
        }
        paused, last = self._store.paused(), self._store.last_lines(sorted(found))
        for name in sorted(found):
            shown = len(versions.get(name, ())) or (found[name].source == REDIS)
            yield PeriodicJob(found[name], name in paused, int(shown), last.get(name), self._store, self._config)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> PeriodicJob | None:
        """The one of this name. Raises RedisFailure when it is on no server that answers, and one does not."""
        every, away = self.look()
        found = next((each for each in every if each.name == name), None)
        if found is None and away:
            raise next(iter(away.values()))
        return found

    def __getitem__(self, name: str) -> PeriodicJob:
        """The one of this name. Raises UnknownPeriodicJob, and RedisFailure as `find`."""
        found = self.find(name)
        if found is None:
            near = suggest(name, [each.name for each in self])
            raise UnknownPeriodicJob(f"there is no periodic job {name}{near}")
        return found

    def add(
        self,
        cron: str,
        job: object,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        tz: str | None = None,
        grace_seconds: float | None = None,
        description: str = "",
        **options: Unpack[JobOptions],
    ) -> PeriodicJob:
        """Add a periodic job, or change one that was added: all processes know it at once. Arguments as of
        `Periodic.register`.

        Raises:
            ConfigurationError: it cannot be one, or one of this name is registered in code or in a file.
        """
        zone, grace = settings_of(self._config)
        entry = make(
            name,
            cron,
            job,
            options=options,
            tz=zone if tz is None else tz,
            grace_seconds=grace if grace_seconds is None else grace_seconds,
            args=tuple(args),
            kwargs=dict(kwargs or {}),
            description=description,
            source=REDIS,
        )
        home = self._config.for_server(entry.home(self._config))
        others = [PeriodicStore(home.redis_of(name)) for name in home.servers if name != home.server]
        store = PeriodicStore(home.shared_redis())
        if entry.name in entries_of(home) or any(entry.name in each.published() for each in (store, *others)):
            raise ConfigurationError(f"periodic job {entry.name!r} is registered in code or in a file: change it there")
        store.add(with_options(entry, home))
        for other in others:  # it went to another server before
            other.remove(entry.name)
        return PeriodicJobs(home, server=home.server)[entry.name]
