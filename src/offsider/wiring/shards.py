"""Shards: which queues a group of workers serves, by their names or by the jobs that a query chooses.

1. A query chooses declared jobs by their characteristics, as a routing rule does.
2. Today's rules, or else the declarations, say where these jobs go: those queues are served.
3. A queue is served as a whole: whatever other jobs go there are run too, which is worth a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING

from offsider.core.query import Query
from offsider.wiring.known_jobs import known_jobs
from offsider.wiring.queue_spec import EVERY, parse_all
from offsider.wiring.routing import MAIN, Routable, Rules, route

if TYPE_CHECKING:
    from offsider.core.query import Attributes
    from offsider.wiring.config import Config
    from offsider.wiring.routing import Routed
    from offsider.wiring.settings import ShardSection


@dataclass(frozen=True, slots=True)
class Destination:
    """A queue that declared jobs go to.

    Attributes:
        server: where it is.
        queue: its name.
        chosen: names of the jobs that go there and that the query chooses.
        others: names of those that go there all the same.
    """

    server: str
    queue: str
    chosen: list[str] = field(default_factory=list[str])
    others: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return self.queue if self.server == MAIN else f"{self.queue} of the server {self.server}"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query over the declared jobs comes to, for workers of one server.

    Attributes:
        queues: that are served, in the order of the rules that send jobs there, then by name.
        mixed: queues of the chosen jobs to which others go too: served with all of them, or, when the query was
            negated, left out with all of them.
        elsewhere: queues of the chosen jobs on other servers, which workers of this one cannot serve.
    """

    queues: tuple[str, ...]
    mixed: tuple[Destination, ...]
    elsewhere: tuple[Destination, ...]


class Routes:
    """Where each declared job goes. Routing all of them takes long with many rules, so it is done once, here.

    Args:
        jobs: all that are declared.
        rules: maybe none.
        defaults: the default options of jobs.
    """

    def __init__(self, jobs: Sequence[Routable], rules: Rules, defaults: Mapping[str, object]) -> None:
        self._jobs, self._rules, self._defaults = tuple(jobs), rules, defaults
        self._routed: list[tuple[str, Attributes, Routed]] = [
            (job.name, job.characteristics.attributes(job.name), route(job, rules, defaults)) for job in jobs
        ]
        self._selected: dict[tuple[str, str], tuple[str, ...]] = {}

    def are_of(self, jobs: Sequence[Routable], rules: Rules, defaults: Mapping[str, object]) -> bool:
        """Whether they were made from the very same."""
        alike = rules is self._rules and defaults is self._defaults and len(jobs) == len(self._jobs)
        return alike and all(map(is_, jobs, self._jobs))

    def destinations(self, queries: Sequence[Query] = ()) -> list[Destination]:
        """Every queue that declared jobs go to, those of rules first, in their order. No queries choose all jobs."""
        found: dict[tuple[str, str], Destination] = {}
        order: dict[tuple[str, str], int] = {}
        last = len(self._rules) + 1
        for name, attributes, routed in self._routed:
            place = routed.server, routed.queue
            at = found.setdefault(place, Destination(*place))
            order[place] = min(order.get(place, last), routed.rule or last)
            is_chosen = not queries or any(query.matches(attributes) for query in queries)
            (at.chosen if is_chosen else at.others).append(name)
        return [found[place] for place in sorted(found, key=lambda place: (order[place], place[1], place[0]))]

    def select(self, queries: Sequence[Query], *, server: str, negate: bool = False) -> Selection:
        """The queues of the jobs that any of the queries chooses.

        Args:
            queries: at least one.
            server: which the workers work for.
            negate: all queues that declared jobs go to, but those.
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
        """The names of the queues that a shard serves; none when its query chooses no job that goes to its server."""
        if shard.queues or not shard.select:
            return tuple(spec.name for spec in parse_all(shard.queues))
        asked = shard.select, shard.server
        if asked not in self._selected:
            self._selected[asked] = self.select([Query.parse(shard.select)], server=shard.server).queues
        return self._selected[asked]


def routes_of(config: Config) -> Routes:
    """Where the jobs that are declared in this process go: worked out once, however often it is asked for."""
    return config.kept.get(KeptRoutes, KeptRoutes).of(config)


class KeptRoutes:
    """The routes of a configuration, made anew when its rules, its defaults or the declared jobs are others."""

    def __init__(self) -> None:
        self._routes: Routes | None = None

    def of(self, config: Config) -> Routes:
        """The routes of the configuration that keeps this."""
        made_from = known_jobs(), config.routing.rules, config.jobs.stored
        routes = self._routes
        if routes is None or not routes.are_of(*made_from):
            routes = self._routes = Routes(*made_from)
        return routes


def unserved(found: Iterable[Destination], served: Mapping[str, Collection[str]]) -> list[Destination]:
    """The queues, by name, at which jobs would wait for ever.

    Args:
        found: where jobs go.
        served: server -> the queues that workers take jobs from; ``*`` among them means all.
    """
    waiting = [each for each in found if not _serves(served.get(each.server, ()), each.queue)]
    return sorted(waiting, key=lambda each: (each.queue, each.server))


def _serves(queues: Collection[str], queue: str) -> bool:
    return queue in queues or EVERY in queues
