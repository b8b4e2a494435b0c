"""Derives the queues of a worker from its jobs: those that its queries or its shard select, or all declared jobs.

1. The application must be loaded, since only then the jobs are known. The fork server does this for its workers.
2. The declared jobs and the current rules determine the queues. The worker serves them with equal weights.
3. Warnings report jobs that share a queue with the selected ones, and selected jobs of other servers.

Queues named by the command line, the environment or the application take precedence.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.config.capsule import DEFAULT_QUEUE
from offsider.config.config import Config
from offsider.config.queue_spec import QueueSpec
from offsider.config.shards import RoutedQueue, Selection, routes_of, unserved
from offsider.core.errors import ConfigurationError
from offsider.core.routing_grammar import Query
from offsider.core.wording import counted, listed
from offsider.jobs import registry


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


def unserved_here(config: Config) -> list[RoutedQueue]:
    """Return the queues of this server to which declared jobs go, and which nothing in the configuration serves."""
    routes = routes_of(config)
    served = {spec.name for capsule in config.capsules.values() for spec in capsule.specs}
    for shard in config.shards.values():
        if shard.server == config.server:
            served.update(routes.queues_of(shard))
    here = [each for each in routes.destinations() if each.server == config.server]
    return unserved(here, {config.server: served})


def _serve_every_job(config: Config) -> None:
    """Serve ``default``, and the queues of the declared jobs that no other capsule and no shard serves."""
    found = [each.queue for each in unserved_here(config)]
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
