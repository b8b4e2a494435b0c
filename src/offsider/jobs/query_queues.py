"""Derives the queues of a worker from queries for jobs: its own, or the ``select`` of its shard.

1. The application must be loaded, since only then the jobs are known. With a supervisor, each worker does this, unless
   the supervisor preloads the application.
2. The declared jobs and the current rules determine the queues. The worker serves them with equal weights.
3. Warnings report jobs that share a queue with the selected ones, and selected jobs of other servers.

Queues and groups named by the command line, the environment or the application take precedence over ``select``.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.config.config import Config
from offsider.config.shards import Routes, Selection
from offsider.core.errors import ConfigurationError
from offsider.core.routing_grammar import Query
from offsider.core.wording import counted, listed
from offsider.jobs import registry


def serve_selected(config: Config, queries: Sequence[Query] = (), *, negate: bool = False) -> list[str]:
    """Set the queues of the worker to those of the selected jobs, if there is a query. Returns warnings.

    Args:
        config: not frozen yet; its application is loaded.
        queries: queries for the jobs of the worker; without any, its shard decides.
        negate: serve the queues of all other declared jobs instead.

    Raises:
        ConfigurationError: no queue is left to serve.
        InvalidOptions: a job is declared with an invalid option.
    """
    chosen = queries or _of_shard(config)
    if not chosen:
        return []
    jobs = registry.all_jobs()
    for job in jobs:
        job.check(config)
    routes = Routes(jobs, config.routing.rules, config.jobs.stored)
    selection = routes.select(chosen, server=config.server, negate=negate)
    texts = " or ".join(repr(query.text.strip()) for query in chosen)
    what = f"--select {texts}" if queries else f"the shard {config.worker.shard} ({texts})"
    if not selection.queues:
        raise ConfigurationError(f"{what} {_nothing(selection, len(jobs), config, negate=negate)}")
    # With equal weights, no queue has priority; `mode = "strict"` uses the order of the rules.
    config.worker.queues = [f"{queue},1" for queue in selection.queues]
    return _warnings(what, selection, config, negate=negate)


def _of_shard(config: Config) -> list[Query]:
    shard = config.shards.get(config.worker.shard)
    if shard is None or not shard.select or config.worker.queues or config.worker.groups:
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
