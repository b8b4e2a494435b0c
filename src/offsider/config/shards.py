"""Shards: the queues that a group of workers serves, given by name or by a query over the declared jobs.

1. A query selects declared jobs by their characteristics, like a routing rule.
2. The shard serves the queues of these jobs, by the current routing rules or else by the declarations.
3. Workers serve a queue as a whole, including jobs there that the query does not select; a warning reports them.

The settings of a shard (queues, select, server, replicas and others) are `ShardSection` in ``config/settings.py``;
`of_shard` in ``config/loading.py`` applies them to a worker that serves the shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from offsider.config.queue_spec import EVERY, parse_all
from offsider.config.routing import MAIN, Routable, Rules, known_jobs, route
from offsider.core.routing_grammar import Query

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.routing import Routed
    from offsider.config.settings import ShardSection
    from offsider.core.routing_grammar import Attributes


@dataclass(frozen=True, slots=True)
class RoutedQueue:
    """A queue that declared jobs go to.

    Attributes:
        server: the name of its server.
        queue: its name.
        chosen: names of its jobs that the query selects.
        others: names of its other jobs.
    """

    server: str
    queue: str
    chosen: list[str] = field(default_factory=list[str])
    others: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return self.queue if self.server == MAIN else f"{self.queue} of the server {self.server}"


class Selection(NamedTuple):
    """The result of a query over the declared jobs, for workers of one server.

    Attributes:
        queues: the queues to serve, in the order of the rules that route jobs to them, then by name.
        mixed: queues with both selected and other jobs: the shard serves them as a whole or, if the query is negated,
            excludes them as a whole.
        elsewhere: queues of selected jobs on other servers, which workers of this server cannot serve.
    """

    queues: tuple[str, ...]
    mixed: tuple[RoutedQueue, ...]
    elsewhere: tuple[RoutedQueue, ...]


class Routes:
    """The destinations of all declared jobs. They are computed once, because many rules make routing slow.

    Args:
        jobs: all declared jobs.
        rules: all rules; may be empty.
        defaults: the default options of jobs.
        further: destinations that no declared job names; see `Hooks.queue_sources`.
    """

    def __init__(
        self,
        jobs: Sequence[Routable],
        rules: Rules,
        defaults: Mapping[str, object],
        further: Sequence[RoutedQueue] = (),
    ) -> None:
        self._jobs, self._rules, self._defaults, self._further = tuple(jobs), rules, defaults, further
        self._routed: list[tuple[str, Attributes, Routed]] = []
        for job in jobs:
            attributes, routed = job.characteristics.attributes(job.name), route(job, rules, defaults)
            self._routed.append((job.name, attributes, routed))
            retry_queue = job.declared_retry_queue or str(defaults.get("retry_queue", ""))
            if retry_queue not in ("", routed.queue):
                self._routed.append((job.name, attributes, routed._replace(queue=retry_queue)))
        self._selected: dict[tuple[str, str], tuple[str, ...]] = {}

    def are_of(self, jobs: Sequence[Routable], rules: Rules, defaults: Mapping[str, object]) -> bool:
        """Return whether these routes were computed from the same objects."""
        alike = rules is self._rules and defaults is self._defaults and len(jobs) == len(self._jobs)
        return alike and all(map(is_, jobs, self._jobs))

    def destinations(self, queries: Sequence[Query] = ()) -> list[RoutedQueue]:
        """Return every queue of declared jobs, in the order of the rules. Without queries, all jobs are selected."""
        found: dict[tuple[str, str], RoutedQueue] = {}
        order: dict[tuple[str, str], int] = {}
        last = len(self._rules) + 1
        for name, attributes, routed in self._routed:
            place = routed.server, routed.queue
            at = found.setdefault(place, RoutedQueue(*place))
            order[place] = min(order.get(place, last), routed.rule or last)
            is_chosen = not queries or any(query.matches(attributes) for query in queries)
            (at.chosen if is_chosen else at.others).append(name)
        for each in self._further:  # no query selects them
            place = each.server, each.queue
            at = found.setdefault(place, RoutedQueue(*place))
            order.setdefault(place, last)
            (at.others if queries else at.chosen).extend(each.chosen)
        return [found[place] for place in sorted(found, key=lambda place: (order[place], place[1], place[0]))]

    def select(self, queries: Sequence[Query], *, server: str, negate: bool = False) -> Selection:
        """Select the queues of the jobs that match any of the queries.

        Args:
            queries: at least one query.
            server: the server of the workers.
            negate: select all other queues of declared jobs instead.
        """
        found = self.destinations(queries)
        here = [each for each in found if each.server == server]
        chosen = [each for each in here if each.chosen]
        served = [each for each in here if not each.chosen] if negate else chosen
        return Selection(
            queues=tuple(each.queue for each in served),
            mixed=tuple(each for each in chosen if each.others),
            elsewhere=() if negate else tuple(each for each in found if each.chosen and each.server != server),
        )

    def queues_of(self, shard: ShardSection) -> tuple[str, ...]:
        """Return the names of the queues that a shard serves; none if its query selects no job of its server."""
        if shard.queues or not shard.select:
            return tuple(spec.name for spec in parse_all(shard.queues))
        asked = shard.select, shard.server
        if asked not in self._selected:
            self._selected[asked] = self.select([Query.parse(shard.select)], server=shard.server).queues
        return self._selected[asked]


def routes_of(config: Config) -> Routes:
    """Return the routes of the jobs that are declared in this process; they are cached."""
    return config.shared.get(KeptRoutes, KeptRoutes).of(config)


class KeptRoutes:
    """Caches the routes of a configuration until its rules, its defaults or the declared jobs change."""

    def __init__(self) -> None:
        self._routes: Routes | None = None

    def of(self, config: Config) -> Routes:
        """Return the routes of the configuration that owns this cache."""
        made_from = known_jobs(), config.routing.rules, config.jobs.stored
        routes = self._routes
        if routes is None or not routes.are_of(*made_from):
            further = [each for source in config.queue_sources for each in source(config)]
            routes = self._routes = Routes(*made_from, further)
        return routes


def unserved(found: Iterable[RoutedQueue], served: Mapping[str, Collection[str]]) -> list[RoutedQueue]:
    """Return the queues that no worker serves, sorted by name.

    Args:
        found: the destinations of jobs.
        served: server -> the queues that its workers serve; ``*`` means all.
    """
    waiting = [each for each in found if not _serves(served.get(each.server, ()), each.queue)]
    return sorted(waiting, key=lambda each: (each.queue, each.server))


def _serves(queues: Collection[str], queue: str) -> bool:
    return queue in queues or EVERY in queues
