"""Read and change the concurrency limits of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, RedisFailure, RedisUnavailable
from offsider.core.former_names import FormerName
from offsider.ext.concurrency_limits import rules, store
from offsider.ext.concurrency_limits.table import effective
from offsider.inspector.job_record import JobRecord
from offsider.inspector.switches import known_jobs
from offsider.jobs import registry
from offsider.runtime.events import JobRemoved
from offsider.storage import clocks, quarantine
from offsider.storage.quarantine import Seen

if TYPE_CHECKING:
    from offsider.config.config import Config

_PAGE = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limit:
    """The concurrency limit of one class.

    Attributes:
        name: of the class.
        limit: maximum of concurrent runs; None without a limit, 0 while the class is paused.
        declared: the limit in the workers' code.
        set_to: the limit set at run time, which overrides the code; None if not set.
        paused: no job of the class starts.
        in_use: slots in use, including slots reserved for resumed jobs.
        held: number of jobs waiting for a slot.
        server: name of the server; each server counts its own slots.
    """

    name: str
    limit: int | None
    declared: int | None
    set_to: int | None
    paused: bool
    in_use: int
    held: int
    server: str = "main"
    parked = FormerName("held")


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that has a slot.

    Attributes:
        jid: of the job.
        process: the identity of the process that runs it.
        since: epoch seconds, by the server's clock.
    """

    jid: str
    process: str
    since: float


class Limits:
    """All concurrency limits of one server.

    ::

        limits = Limits()
        limits.set("app.jobs.call_the_bank", 3)
        limits.pause("app.jobs.call_the_bank")

    A change applies to the whole fleet, on all servers of the configuration: immediately for classes that have a
    limit, within a second for others. You can name a class by any of its aliases.

    Args:
        config: which server to read; default: the process-wide configuration.
        everywhere: apply changes on all servers of the configuration, not only on this one.

    A change raises RedisFailure if a server rejects it or is unreachable; the other servers are changed.
    """

    parked = FormerName("held")

    def __init__(self, config: Config | Installation | None = None, *, everywhere: bool = True) -> None:
        self._here = Installation.of(config)
        self._redis = self._here.redis
        names = self._here.config.servers if everywhere else [self._here.server]
        self._servers = {name: self._here.for_server(name) for name in names}

    def __iter__(self) -> Iterator[Limit]:
        """Return each class that has a limit, a slot in use or held jobs, sorted by name."""
        settings, declared = store.settings(self._redis), _declared(self._here)
        names = {*declared, *settings.limits, *settings.paused, *settings.held, *store.active(self._redis)}
        return iter(self._limits(sorted(names)))

    def find(self, name: str) -> Limit:
        """Return the limit of a class, also if it has none."""
        return self._limits([self.name_of(name)])[0]

    def name_of(self, name: str) -> str:
        """Return the name under which a class is counted, given any of its aliases."""
        job = registry.peek(name)
        if job is not None:
            return job.name
        return store.aliases(self._redis, self._here.config.clock.now()).get(name, name)

    def known_names(self) -> frozenset[str]:
        """Return classes known to live workers, and classes with a limit in code; empty if no worker reports any."""
        known = known_jobs(self._here)
        return known | {limit.name for limit in self if limit.declared is not None} if known else known

    def holders(self, name: str, most: int = 100) -> list[Holder]:
        """Return the runs of a class that have slots, oldest first."""
        return [Holder(run.jid, run.process, since) for run, since in store.runs(self._redis, self.name_of(name), most)]

    def held(self, name: str, start: int = 0, count: int = 100) -> list[JobRecord]:
        """Return held jobs of a class, next first.

        Args:
            name: of the class.
            start: number of jobs to skip.
            count: maximum number of jobs.
        """
        raws = store.held(self._redis, self.name_of(name), start, count)
        return [JobRecord(raw, position=position) for position, raw in enumerate(raws, start)]

    def set(self, name: str, limit: int) -> None:
        """Set the maximum of concurrent runs; it overrides the code. 0: no limit.

        Raises:
            InvalidOptions: the limit is not a whole number from 0 to 1,000,000.
        """
        if rules.number(limit) < 0:
            raise InvalidOptions(
                f"limit of {name}: expected 0 (no limit) or more, got {limit}; to run none, pause the class"
            )
        self._set(name, limit)

    def unset(self, name: str) -> None:
        """Remove the limit set at run time; the limit in code applies again."""
        self._set(name, None)

    def pause(self, name: str) -> bool:
        """Stop starting jobs of a class; claimed ones are held. Return False if it was paused already."""
        name = self.name_of(name)
        return any(self._everywhere(lambda here: store.set_paused(here.redis, name, paused=True)))

    def resume(self, name: str) -> bool:
        """Resume a paused class. Return False if it was not paused."""
        name = self.name_of(name)

        def go_on(here: Installation) -> bool:
            changed = store.set_paused(here.redis, name, paused=False)
            _resume(here, name)
            return changed

        return any(self._everywhere(go_on))

    def quarantine(self, name: str) -> int:
        """Move all held jobs of a class to the quarantine, for ``worker.quarantine_days``. Return their number.

        Restored jobs go to the end of their queue.
        """
        name = self.name_of(name)
        moved, left = 0, self.find(name).held
        while left > 0:
            raws = store.held(self._redis, name, 0, min(left, quarantine.BATCH))
            if not raws:
                break
            left -= len(raws)
            moved += self._put_aside(name, raws)
        return moved

    def delete(self, name: str) -> int:
        """Permanently delete all held jobs of a class. Return their number."""
        name = self.name_of(name)
        deleted, left = 0, self.find(name).held
        while left > 0:
            raws = store.held(self._redis, name, 0, min(left, _PAGE))
            if not raws:
                break
            left -= len(raws)
            gone = store.take_out(self._redis, name, raws)
            deleted += len(gone)
            for raw in gone:
                self._tell(name, raw, "delete")
        return deleted

    def _put_aside(self, name: str, raws: Sequence[bytes]) -> int:
        """Of the next jobs, queue by queue: that is where each goes when it is restored."""
        days, now = self._here.config.worker.quarantine_days, self._here.config.clock.now()
        out_of, left = store.Names(self._redis.keys).held(name), list(raws)
        for queue in {JobRecord(raw).queue: None for raw in raws}:
            jobs = [Seen(raw, at) for at, raw in enumerate(left) if JobRecord(raw).queue == queue]
            gone = quarantine.take_from_queue(
                self._redis, queue, jobs, days=days, at=now, how="quarantine", out_of=out_of
            )
            taken = {job.position for job, went in zip(jobs, gone, strict=True) if went}
            left = [raw for at, raw in enumerate(left) if at not in taken]
        moved = Counter(raws) - Counter(left)
        for raw in moved.elements():
            self._tell(name, raw, "quarantine")
        return moved.total()

    def _tell(self, name: str, raw: bytes, how: str) -> None:
        self._here.config.events.emit("job_removed", JobRemoved(raw, f"held:{name}", how, self._here.server))

    def _set(self, name: str, limit: int | None) -> None:
        name = self.name_of(name)

        def change(here: Installation) -> None:
            store.set_limit(here.redis, name, limit)
            _resume(here, name)

        self._everywhere(change)

    def _everywhere(self, change: Callable[[Installation], T]) -> list[T]:
        """Change each server, even if an earlier one failed."""
        done: list[T] = []
        failures: dict[str, RedisFailure] = {}
        for name, here in self._servers.items():
            try:
                done.append(change(here))
            except RedisFailure as error:
                failures[name] = error
        if failures:
            away, done_on = ", ".join(failures), ", ".join(self._servers.keys() - failures.keys()) or "no server"
            raise RedisUnavailable(f"changed on {done_on}, not on {away}: {next(iter(failures.values()))}")
        return done

    def _limits(self, names: Sequence[str]) -> list[Limit]:
        settings, declared = store.settings(self._redis), _declared(self._here)
        counts = store.counts(self._redis, names, clocks.look(self._redis)[0] * 1000)
        limits: list[Limit] = []
        for name, count in zip(names, counts, strict=True):
            in_code = declared.get(name, 0)
            holds = effective(name, in_code, settings)
            limits.append(
                Limit(
                    name=name,
                    limit=max(0, holds) if holds else None,
                    declared=max(0, in_code) if in_code else None,
                    set_to=settings.limits.get(name),
                    paused=holds < 0,
                    in_use=count.in_use + count.kept,
                    held=count.held,
                    server=self._here.server,
                )
            )
        return limits


def _declared(here: Installation) -> dict[str, int]:
    return store.declared(here.redis, here.config.clock.now(), store.SHOWN_SECONDS)


def _resume(here: Installation, name: str) -> None:
    """Resume held jobs now instead of waiting for the next check of a worker."""
    declared = _declared(here).get(name, 0)
    store.resume(here.redis, name, declared, now_seconds=here.config.clock.now())
