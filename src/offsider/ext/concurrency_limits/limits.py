"""The concurrency limits of a server, to look at and to change: what the inspector is to jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from offsider.core.errors import InvalidOptions, RedisFailure, RedisUnavailable
from offsider.ext.concurrency_limits import rules, store
from offsider.ext.concurrency_limits.table import effective
from offsider.inspector.job_record import JobRecord
from offsider.inspector.switches import known_jobs
from offsider.jobs import registry
from offsider.storage import clocks, quarantine
from offsider.storage.quarantine import Seen
from offsider.wiring.default import default_config
from offsider.wiring.events import JobRemoved

if TYPE_CHECKING:
    from offsider.wiring.config import Config

_PAGE = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limit:
    """What holds for one class.

    Attributes:
        name: of the class.
        limit: the most runs at one time; None without a limit, 0 while the class is paused.
        declared: the same as the code of workers has it.
        set_to: what was set at run time, which is stronger; None when nothing was.
        paused: nothing of the class runs.
        in_use: how many slots are taken, those that are kept for resumed jobs among them.
        parked: how many jobs wait for a slot.
        server: where that is; each has slots of its own.
    """

    name: str
    limit: int | None
    declared: int | None
    set_to: int | None
    paused: bool
    in_use: int
    parked: int
    server: str = "main"


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

    What is changed holds for the whole fleet, on all servers of the configuration: at once for classes that have a
    limit, within a second for others. A class may be named by any of its aliases.

    Args:
        config: which server is looked at; default: this process's.
        everywhere: changes hold on all servers of the configuration, and not on this one alone.

    A change raises RedisFailure when a server did not take it; the others have it then.
    """

    def __init__(self, config: Config | None = None, *, everywhere: bool = True) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()
        names = self._config.servers if everywhere else [self._config.server]
        self._servers = {name: self._config.for_server(name) for name in names}

    def __iter__(self) -> Iterator[Limit]:
        """Every class that has a limit, has a slot in use, or has jobs parked, by name."""
        settings, declared = store.settings(self._redis), _declared(self._config)
        names = {*declared, *settings.limits, *settings.paused, *settings.parked, *store.active(self._redis)}
        return iter(self._limits(sorted(names)))

    def find(self, name: str) -> Limit:
        """What holds for a class, also for one without a limit."""
        return self._limits([self.name_of(name)])[0]

    def name_of(self, name: str) -> str:
        """The name that a class is counted under, by any of its aliases."""
        job = registry.peek(name)
        if job is not None:
            return job.name
        return store.aliases(self._redis, self._config.clock.now()).get(name, name)

    def known_names(self) -> frozenset[str]:
        """The names that live workers know, and those of all classes that are listed here; empty when nobody tells."""
        known = known_jobs(self._config)
        return known | {limit.name for limit in self if limit.declared is not None} if known else known

    def holders(self, name: str, most: int = 100) -> list[Holder]:
        """The runs of a class that have slots, the oldest first."""
        return [Holder(run.jid, run.process, since) for run, since in store.runs(self._redis, self.name_of(name), most)]

    def parked(self, name: str, start: int = 0, count: int = 100) -> list[JobRecord]:
        """Parked jobs of a class, the next one first.

        Args:
            name: of the class.
            start: how many to leave out.
            count: how many at most.
        """
        raws = store.parked(self._redis, self.name_of(name), start, count)
        return [JobRecord(raw, position=position) for position, raw in enumerate(raws, start)]

    def set(self, name: str, limit: int) -> None:
        """Let so many jobs of a class run at one time, whatever the code says; 0: as many as there are threads.

        Raises:
            InvalidOptions: it is no whole number from 0 on, or a million.
        """
        if rules.number(limit) < 0:
            raise InvalidOptions(f"the limit of {name} is 0 (no limit) or more, got {limit}; to let none run, pause it")
        self._set(name, limit)

    def unset(self, name: str) -> None:
        """Go by the limit in code again."""
        self._set(name, None)

    def pause(self, name: str) -> bool:
        """Let no job of a class begin; those that are claimed are parked. False when it was paused before."""
        name = self.name_of(name)
        return any(self._everywhere(lambda config: store.set_paused(config.shared_redis(), name, paused=True)))

    def resume(self, name: str) -> bool:
        """Let a paused class go on. False when it was not paused."""
        name = self.name_of(name)

        def go_on(config: Config) -> bool:
            changed = store.set_paused(config.shared_redis(), name, paused=False)
            _resume(config, name)
            return changed

        return any(self._everywhere(go_on))

    def quarantine(self, name: str) -> int:
        """Put the jobs of a class that are parked now aside, for ``worker.quarantine_days``; how many they were.

        Restored, they are at the end of their queue.
        """
        name = self.name_of(name)
        moved, left = 0, self.find(name).parked
        while left > 0:
            raws = store.parked(self._redis, name, 0, min(left, quarantine.BATCH))
            if not raws:
                break
            left -= len(raws)
            moved += self._put_aside(name, raws)
        return moved

    def delete(self, name: str) -> int:
        """Delete the jobs of a class that are parked now, for good; how many they were."""
        name = self.name_of(name)
        deleted, left = 0, self.find(name).parked
        while left > 0:
            raws = store.parked(self._redis, name, 0, min(left, _PAGE))
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
        days, now = self._config.worker.quarantine_days, self._config.clock.now()
        out_of, left = store.Names(self._redis.keys).parked(name), list(raws)
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
        self._config.events.emit("job_removed", JobRemoved(raw, f"parked:{name}", how, self._config.server))

    def _set(self, name: str, limit: int | None) -> None:
        name = self.name_of(name)

        def change(config: Config) -> None:
            store.set_limit(config.shared_redis(), name, limit)
            _resume(config, name)

        self._everywhere(change)

    def _everywhere(self, change: Callable[[Config], T]) -> list[T]:
        """Change each server, also when one before it did not take it."""
        done: list[T] = []
        failures: dict[str, RedisFailure] = {}
        for name, config in self._servers.items():
            try:
                done.append(change(config))
            except RedisFailure as error:
                failures[name] = error
        if failures:
            away, here = ", ".join(failures), ", ".join(self._servers.keys() - failures.keys()) or "no server"
            raise RedisUnavailable(f"changed on {here}, not on {away}: {next(iter(failures.values()))}")
        return done

    def _limits(self, names: Sequence[str]) -> list[Limit]:
        settings, declared = store.settings(self._redis), _declared(self._config)
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
                    parked=count.parked,
                    server=self._config.server,
                )
            )
        return limits


def _declared(config: Config) -> dict[str, int]:
    return store.declared(config.shared_redis(), config.clock.now(), store.SHOWN_SECONDS)


def _resume(config: Config, name: str) -> None:
    """At once, and not only when a worker looks next."""
    declared = _declared(config).get(name, 0)
    store.leave(config.shared_redis(), None, name, declared, now_seconds=config.clock.now())
