"""The queues of a worker that is told which jobs it is for: by queries of its own, or by the ``select`` of its shard.

1. The application is loaded: only then the jobs are known. In each worker of a supervisor, unless it preloads.
2. Its jobs and today's rules say which queues these are; the worker serves them, each looked at as often as others.
3. What is odd becomes a warning: jobs that share a queue with the chosen ones, and jobs of other servers.

Queues and groups that the command line, the environment or the application name stand above the ``select`` of a shard.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.core.errors import ConfigurationError
from offsider.core.query import Query
from offsider.core.wording import counted, listed
from offsider.jobs import registry
from offsider.wiring.config import Config
from offsider.wiring.shards import Routes, Selection


def serve_selected(config: Config, queries: Sequence[Query] = (), *, negate: bool = False) -> list[str]:
    """Have the worker serve what is selected, if anything is; answers what is odd about it.

    Args:
        config: not frozen yet; its application is loaded.
        queries: which jobs the worker is for; none leave that to its shard.
        negate: all queues that declared jobs go to, but those of these jobs.

    Raises:
        ConfigurationError: no queue is left to serve.
        InvalidOptions: a job is declared with an option that is impossible.
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
    # With a weight, none of them comes before the others; `mode = "strict"` takes them in the order of the rules.
    config.worker.queues = [f"{queue},1" for queue in selection.queues]
    return _warnings(what, selection, config, negate=negate)


def _of_shard(config: Config) -> list[Query]:
    shard = config.shards.get(config.worker.shard)
    if shard is None or not shard.select or config.worker.queues or config.worker.groups:
        return []
    return [Query.parse(shard.select)]


def _nothing(selection: Selection, jobs: int, config: Config, *, negate: bool) -> str:
    if selection.elsewhere:
        places = listed(map(str, selection.elsewhere))
        return (
            f"leaves nothing to serve: its jobs go to {places}, and this worker works for {config.server}; give it a "
            "shard of that server (--shard)"
        )
    if not jobs:
        return "leaves nothing to serve: the application declares no jobs; name with -r the modules that do"
    if negate:
        return "leaves nothing to serve: with --negate no queue of a declared job is left"
    return (
        f"chooses none of {counted(jobs, 'declared job')}, so there is no queue to serve: 'offsider jobs list' shows "
        "what they say of themselves"
    )


def _warnings(what: str, selection: Selection, config: Config, *, negate: bool) -> list[str]:
    verb = "leaves out" if negate else "serves"
    mixed = [
        f"{what} {verb} the queue {each.queue} with all its jobs, {listed(each.others)} as well, which it does not "
        "choose: give them a queue of their own by a routing rule"
        for each in selection.mixed
    ]
    elsewhere = [
        f"{what} does not serve {each}, where {listed(each.chosen)} would wait: this worker works for the server "
        f"{config.server}"
        for each in selection.elsewhere
    ]
    return [*mixed, *elsewhere]
