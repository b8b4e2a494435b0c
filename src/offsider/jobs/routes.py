"""The queues to which declared jobs go, and those of them that a worker serves: by its queries, its shard, or all.

1. A query selects declared jobs by their characteristics, like a routing rule. The application must be loaded, since
   only then the jobs are known. The fork server does this for its workers.
2. A worker or a shard serves the queues of these jobs, by the current routing rules or else by the declarations.
3. Workers serve a queue as a whole, including jobs there that the query does not select. Warnings report these, and
   selected jobs of other servers.

Queues named by the command line, the environment or the application take precedence over those of a worker's jobs.
`ShardSection` in ``config/settings.py`` has the settings of a shard; `Config.load` applies them to a worker that serves
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import NamedTuple

from offsider.config.capsule import DEFAULT_QUEUE
from offsider.config.config import Config
from offsider.config.routing import EVERY, MAIN, QueueSpec, Routable, Routed, Rules, parse_all, route
from offsider.config.settings import ShardSection
from offsider.core.characteristics import Attributes, Query
from offsider.core.errors import ConfigurationError
from offsider.core.wording import counted, listed
from offsider.jobs import registry


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
        on_server = [each for each in found if each.server == server]
        chosen = [each for each in on_server if each.chosen]
        served = [each for each in on_server if not each.chosen] if negate else chosen
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
        made_from = registry.all_jobs(), config.routing.rules, config.jobs.stored
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


def serve_selected(config: Config, queries: Sequence[Query] = (), *, negate: bool = False) -> list[str]:
    """Set the queues of the worker to those of the selected jobs. Returns warnings.

    Args:
        config: not frozen yet; its application is loaded.
        queries: queries for the jobs of the worker; without any, its shard decides, and without a shard all declared
            jobs are selected.
        negate: serve the queues of all other declared jobs instead.

    Raises:
        ConfigurationError: no queue is left to serve.
        InvalidOptions: a job is declared with an invalid option.
    """
    chosen = queries or _of_shard(config)
    if not chosen and config.worker.queues:
        return []
    jobs = registry.all_jobs()
    for job in jobs:
        job.check(config)
    if not chosen:
        _serve_every_job(config)
        return []
    selection = routes_of(config).select(chosen, server=config.server, negate=negate)
    texts = " or ".join(repr(query.text.strip()) for query in chosen)
    what = f"--select {texts}" if queries else f"the shard {config.worker.shard} ({texts})"
    if not selection.queues:
        raise ConfigurationError(f"{what} {_nothing(selection, len(jobs), config, negate=negate)}")
    # With equal weights, no queue has priority; `mode = "strict"` uses the order of the rules.
    config.worker.queues = [f"{queue},1" for queue in selection.queues]
    return _warnings(what, selection, config, negate=negate)


def unserved_on_server(config: Config) -> list[RoutedQueue]:
    """Return the queues of this server to which declared jobs go, and which nothing in the configuration serves."""
    routes = routes_of(config)
    served = {spec.name for capsule in config.capsules.values() for spec in capsule.specs}
    for shard in config.shards.values():
        if shard.server == config.server:
            served.update(routes.queues_of(shard))
    destinations = [each for each in routes.destinations() if each.server == config.server]
    return unserved(destinations, {config.server: served})


def _serve_every_job(config: Config) -> None:
    """Serve ``default``, and the queues of the declared jobs that no other capsule and no shard serves."""
    found = [each.queue for each in unserved_on_server(config)]
    if found:
        # Only "*" can serve a name with outer spaces.
        names = [DEFAULT_QUEUE, *(name for name in found if name == name.strip())]
        config.worker.queues = [str(QueueSpec(name, 1)) for name in names]


def _of_shard(config: Config) -> list[Query]:
    shard = config.shards.get(config.worker.shard)
    if shard is None or not shard.select or config.worker.queues:
        return []
    return [Query.parse(shard.select)]


def _nothing(selection: Selection, jobs: int, config: Config, *, negate: bool) -> str:
    if selection.elsewhere:
        places = listed(sorted(map(str, selection.elsewhere)))
        return (
            f"leaves nothing to serve: its jobs go to {places}, and this worker serves {config.server}; choose a "
            "shard of that server (--shard)"
        )
    if not jobs:
        return "leaves nothing to serve: the application declares no jobs; pass the modules that do with -r"
    if negate:
        return "leaves nothing to serve: with --negate no queue of a declared job is left"
    return (
        f"selects none of {counted(jobs, 'declared job')}, so there is no queue to serve: 'offsider jobs list' shows "
        "their characteristics"
    )


def _warnings(what: str, selection: Selection, config: Config, *, negate: bool) -> list[str]:
    verb = "leaves out" if negate else "serves"
    mixed = [
        f"{what} {verb} the queue {each.queue} with all its jobs, including {listed(sorted(each.others))}, which it "
        "does not select: route them to another queue"
        for each in selection.mixed
    ]
    elsewhere = [
        f"{what} does not serve {each}, where {listed(sorted(each.chosen))} would wait: start a worker "
        f"for the server of that queue, since this one serves {config.server}"
        for each in selection.elsewhere
    ]
    return [*mixed, *elsewhere]
