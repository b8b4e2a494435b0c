"""Read and change the concurrency limits of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, RedisFailure, RedisUnavailable
from offsider.ext.concurrency_limits import rules, store
from offsider.ext.concurrency_limits.table import effective
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import removing
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
    """The limits of one class, or of one of its keys: ``app.jobs.transfer[42]``.

    Attributes:
        name: of the class.
        limit: maximum of concurrent runs; None without a limit, 0 while the class is paused.
        declared: the limit in the workers' code.
        set_to: the limit set at run time, which overrides the code; None if not set.
        paused: no job of the class starts.
        in_use: slots in use, including slots reserved for resumed jobs.
        held: number of jobs waiting for a slot.
        server: name of the server; each server counts its own slots.
        rate: the rate limit of a class that had held jobs: maximum starts and milliseconds; empty without one.
        keys: number of keys with slots in use or held jobs.
    """

    name: str
    limit: int | None
    declared: int | None
    set_to: int | None
    paused: bool
    in_use: int
    held: int
    server: str = "main"
    rate: str = ""
    keys: int = 0


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

    def __init__(self, config: Config | Installation | None = None, *, everywhere: bool = True) -> None:
        self._here = Installation.of(config)
        self._redis = self._here.redis
        names = self._here.config.servers if everywhere else [self._here.server]
        self._servers = {name: self._here.for_server(name) for name in names}

    def __iter__(self) -> Iterator[Limit]:
        """Return each class that has a limit, a slot in use or held jobs, sorted by name."""
        return iter(self.read(self.names()))

    def names(self, text: str = "") -> list[str]:
        """Return the names of all classes that have a limit, a slot in use or held jobs, sorted.

        Args:
            text: only classes whose name contains it, or the name of one of their keys, such as ``transfer[42]``.
        """
        settings, declared = store.settings(self._redis), _declared(self._here)
        known = {*declared, *settings.limits, *settings.paused, *store.active(self._redis)}
        return sorted({store.class_of(name) for name in known if text in name})

    def read(self, names: Sequence[str]) -> list[Limit]:
        """Return the limits of classes, in one round trip for the counts of all."""
        wanted = set(names)
        groups = [group for group in store.active(self._redis) if store.class_of(group) in wanted]
        return self._limits(names, sorted({*names, *groups}))

    def find(self, name: str) -> Limit:
        """Return the limit of a class, even if it has none."""
        name = self.name_of(name)
        return self._limits([name], self._groups(name))[0]

    def by_key(self, name: str, text: str = "") -> list[Limit]:
        """Return each key of a class that has slots in use or held jobs, the one with most held jobs first.

        Args:
            name: of the class.
            text: only keys that contain it.
        """
        name = self.name_of(name)
        keys = [group for group in self._groups(name) if store.class_of(group) != group]
        groups = [group for group in keys if text in group[len(name) :]]
        return sorted(self._limits(groups, groups), key=lambda limit: (-limit.held, limit.name))

    def _groups(self, name: str) -> list[str]:
        """Return the groups of a class, or the one group of a key."""
        if store.class_of(name) != name:
            return [name]
        return [name, *(group for group in store.active(self._redis) if store.class_of(group) == name != group)]

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
        """Return the runs of a class, or of a key, that have slots, oldest first."""
        found = store.runs(self._redis, *self._groups(self.name_of(name)), most=most)
        found.sort(key=lambda pair: pair[1])
        return [Holder(run.jid, run.process, since) for run, since in found[:most]]

    def held(self, name: str, start: int = 0, count: int = 100) -> list[JobRecord]:
        """Return held jobs of a class, or of a key, next first; jobs of a class are sorted by key.

        Args:
            name: of the class, or of a key: ``app.jobs.transfer[42]``.
            start: number of jobs to skip.
            count: maximum number of jobs.
        """
        raws: list[bytes] = []
        first = start
        for group, counts in self._counts(self._groups(self.name_of(name))).items():
            if len(raws) < count and first < counts.held:
                raws += store.held(self._redis, group, first, count - len(raws))
            first = max(0, first - counts.held)
        return [JobRecord(raw, position=position) for position, raw in enumerate(raws, start)]

    def set(self, name: str, limit: int) -> None:
        """Set the maximum of concurrent runs; it overrides the code. 0: no limit.

        Raises:
            InvalidOptions: the limit is not a whole number from 0 to 1,000,000, or the name belongs to a key.
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
        name = self._class(name)
        return any(self._everywhere(lambda here: store.set_paused(here.redis, name, paused=True)))

    def resume(self, name: str) -> bool:
        """Resume a paused class. Return False if it was not paused."""
        name = self._class(name)

        def go_on(here: Installation) -> bool:
            changed = store.set_paused(here.redis, name, paused=False)
            _resume(here, name)
            return changed

        return any(self._everywhere(go_on))

    def quarantine(self, name: str) -> int:
        """Move all held jobs of a class to the quarantine, for ``worker.quarantine_days``. Return their number.

        Restored jobs go to the end of their queue.
        """
        quarantine.trim(self._redis)
        days = self._here.config.worker.quarantine_days
        return sum(self._clear(group, "quarantine", days) for group in self._groups(self.name_of(name)))

    def delete(self, name: str) -> int:
        """Permanently delete all held jobs of a class. Return their number."""
        return sum(self._clear(group, "delete") for group in self._groups(self.name_of(name)))

    def _clear(self, group: str, how: str, days: float = 0) -> int:
        removed, left = 0, self._limits([group], [group])[0].held
        while left > 0:
            raws = store.held(self._redis, group, 0, min(left, quarantine.BATCH))
            if not raws:
                break
            left -= len(raws)
            removed += self._take(group, raws, how, days)
        return removed

    def _take(self, group: str, raws: Sequence[bytes], how: str, days: float) -> int:
        """Remove the next jobs, queue by queue: that is where each goes when it is restored."""
        now, where, out_of = self._here.config.clock.now(), f"held:{group}", store.Names(self._redis.keys).held(group)
        left = list(raws)
        for queue in {JobRecord(raw).queue: None for raw in raws}:
            jobs = [Seen(raw, at) for at, raw in enumerate(left) if JobRecord(raw).queue == queue]
            redis = removing(self._here, (job.raw for job in jobs), where, how)
            gone = quarantine.take_from_queue(redis, queue, jobs, days=days, at=now, how=how, out_of=out_of)
            taken = {job.position for job, went in zip(jobs, gone, strict=True) if went}
            left = [raw for at, raw in enumerate(left) if at not in taken]
        removed = Counter(raws) - Counter(left)
        for raw in removed.elements():
            self._here.config.events.emit("job_removed", JobRemoved(raw, where, how, self._here.server))
        return removed.total()

    def _class(self, name: str) -> str:
        if store.class_of(name) != name:
            raise InvalidOptions(f"{name} is a single key, but limits apply to a class: pass {store.class_of(name)}")
        return self.name_of(name)

    def _set(self, name: str, limit: int | None) -> None:
        name = self._class(name)

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

    def _counts(self, groups: Sequence[str]) -> dict[str, store.Counts]:
        now_ms = clocks.look(self._redis)[0] * 1000
        return dict(zip(groups, store.counts(self._redis, groups, now_ms), strict=True))

    def _limits(self, names: Sequence[str], groups: Sequence[str]) -> list[Limit]:
        """Return the limits of classes, with the sums of their groups; or the limits of the named groups."""
        settings, declared, rates = store.settings(self._redis), _declared(self._here), store.rates(self._redis)
        counts = self._counts(groups)
        limits: list[Limit] = []
        of = {name: [counts[name]] if name in counts else [] for name in names}
        keys = Counter[str]()
        for group, count in counts.items():
            name = store.class_of(group)
            if group not in of:
                of[name].append(count)
            if group != name and (count.in_use or count.kept or count.held):
                keys[name] += 1
        for name in names:
            class_ = store.class_of(name)
            in_code = declared.get(class_, 0)
            holds = effective(class_, in_code, settings)
            limits.append(
                Limit(
                    name=name,
                    limit=max(0, holds) if holds else None,
                    declared=max(0, in_code) if in_code else None,
                    set_to=settings.limits.get(class_),
                    paused=holds < 0,
                    in_use=sum(count.in_use + count.kept for count in of[name]),
                    held=sum(count.held for count in of[name]),
                    server=self._here.server,
                    rate=rates.get(class_, ""),
                    keys=keys[name],
                )
            )
        return limits


def _declared(here: Installation) -> dict[str, int]:
    return store.declared(here.redis, here.config.clock.now(), store.SHOWN_SECONDS)


def _resume(here: Installation, name: str) -> None:
    """Resume held jobs now instead of waiting for the next check of a worker."""
    declared = _declared(here).get(name, 0)
    for group in {name, *store.active(here.redis)}:
        if store.class_of(group) == name:
            store.resume(here.redis, group, declared, now_seconds=here.config.clock.now())
