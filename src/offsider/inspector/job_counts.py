"""Exact counts of jobs in several places: their values, and a bulk action that changes only the counted jobs."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, cast

from offsider.config.installation import Installation
from offsider.inspector.counted import Counted
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.scan import deadline
from offsider.inspector.search import place_of
from offsider.storage import hashes
from offsider.storage.scripts import run_together

#: Expiry of a stored count, from the last write.
KEEP_SECONDS = 3600
_HEAD = "head"
#: Changes counted jobs of a place for up to some milliseconds; None: all of them.
Act: TypeAlias = Callable[[Any, Counted, "float | None"], int]


class JobCounts:
    """A count of the matching jobs of some places, in steps, and an action on them, in steps.

    `keep` stores it for an hour, so that another process can do the next step. A job that has changed or arrived since
    the count is not affected.

    Args:
        server: the server.
        wanted: the filter that the jobs match.
        places: their places, as `offsider.inspector.search.place_names` returns them; running jobs are left out.
        where: what the user called these places.

    Attributes:
        wanted, where: as given.
        name: a random name, for `read`.
        at: start of the count, in epoch seconds.
        places: the places by name.
        counted: the count of each place.
        verb: name of the action that has started; empty before.
    """

    def __init__(self, server: Installation, wanted: JobFilter, places: Collection[str], where: str = "") -> None:
        self._redis = server.redis
        self.wanted = wanted
        self.name = secrets.token_hex(8)
        self.at = server.config.clock.now()
        self.where = where
        self.verb = ""
        found = {where: place_of(server, where) for where in places}
        self.places: dict[str, JobPlace[Any]] = {where: place for where, place in found.items() if place is not None}
        self.counted = {
            where: Counted(wanted, once=place.is_unique, at=self.at) for where, place in self.places.items()
        }

    def __len__(self) -> int:
        return sum(map(len, self.counted.values()))

    @property
    def complete(self) -> bool:
        """Whether the count is complete."""
        return all(counted.complete for counted in self.counted.values())

    @property
    def scanned(self) -> int:
        """Number of jobs read."""
        return sum(counted.scanned for counted in self.counted.values())

    @property
    def stored(self) -> int:
        """Number of jobs that are in the places now."""
        return sum(map(len, self.places.values()))

    @property
    def values(self) -> Mapping[str, Counter[str]]:
        """Number of counted jobs by value, for each field of `JobFilter.values_of`."""
        found: dict[str, Counter[str]] = {}
        for counted in self.counted.values():
            for name, values in counted.values.items():
                found.setdefault(name, Counter()).update(values)
        return found

    def count(self, budget_ms: float | None = None) -> None:
        """Count for about ``budget_ms``, None: to the end."""
        is_over = deadline(budget_ms)
        for where, counted in self.counted.items():
            if not counted.complete:
                self.places[where].count(counted, budget_ms)
                if is_over():
                    return

    def act(
        self, verb: str, acts: Mapping[str, Act], budget_ms: float | None = None, *, stop_at: int | None = None
    ) -> None:
        """Change the counted jobs for about ``budget_ms``, None: all of them.

        Args:
            verb: name of the action.
            acts: place -> the action there; other places are left out.
            budget_ms: call again to continue.
            stop_at: stop after this many jobs in all.
        """
        self.verb = verb
        is_over = deadline(budget_ms)
        for where, act in acts.items():
            counted = self.counted[where]
            others = sum(each.done + each.refused for each in self.counted.values() if each is not counted)
            counted.stop_at = None if stop_at is None else max(0, stop_at - others)
            if not counted.finished and counted.stop_at != 0:
                act(self.places[where], counted, budget_ms)
                if is_over():
                    return

    def keep(self) -> None:
        """Store it for an hour."""
        head: dict[str, object] = {"wanted": self.wanted.stored, "places": [*self.places], "where": self.where}
        head |= {"at": self.at, "verb": self.verb}
        fields = {_HEAD: json.dumps(head).encode()}
        for at, counted in enumerate(self.counted.values()):
            fields |= {f"{at} {name}": value for name, value in counted.stored().items()}
        key = self._redis.keys.counted(self.name)
        items = (item for pair in fields.items() for item in pair)
        run_together(self._redis, ("HSET", key, *items), ("EXPIRE", key, KEEP_SECONDS))

    @classmethod
    def read(cls, server: Installation, name: str, filter_of: Callable[..., JobFilter] = JobFilter) -> JobCounts | None:
        """Read a stored count; None if it does not exist or has expired.

        Args:
            server: the server.
            name: its name.
            filter_of: makes the filter of its fields.
        """
        stored = hashes.pairs(server.redis.call("HGETALL", server.redis.keys.counted(name)))
        fields = {hashes.text(field): value for field, value in stored}
        if _HEAD not in fields:
            return None
        head: dict[str, Any] = json.loads(fields.pop(_HEAD))
        asked: dict[str, Any] = head["wanted"]
        ranges = {name: tuple(cast("list[float]", value)) for name, value in asked.items() if isinstance(value, list)}
        counts = cls(server, filter_of(**asked | ranges), head["places"], head["where"])
        counts.name, counts.at, counts.verb = name, head["at"], head["verb"]
        for at, (where, place) in enumerate(counts.places.items()):
            own = {field.partition(" ")[2]: value for field, value in fields.items() if field.startswith(f"{at} ")}
            counts.counted[where] = Counted.restored(own, counts.wanted, once=place.is_unique)
        return counts
