"""The queues of a worker that is told which jobs it is for: by ``--select``, or by the ``select`` of its shard.

1. The application is loaded: only then the jobs are known. In each worker of a supervisor, unless it preloads.
2. Its jobs and today's rules say which queues these are; the worker serves them, each looked at as often as others.
3. What is odd becomes a warning of the start: jobs that share a queue with the chosen ones, and jobs of other servers.

Queues and groups that ``-q``, ``-G``, the environment or the application name stand above the ``select`` of a shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import ConfigurationError
from offsider.core.query import Query
from offsider.core.wording import listed
from offsider.jobs import registry
from offsider.wiring.shards import Selection, select

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.wiring.config import Config


def serve_selected(options: WorkerOptions, config: Config) -> None:
    """Have the worker serve what was selected, if anything was; its application is loaded.

    Raises:
        ConfigurationError: no queue is left to serve.
        InvalidOptions: a job is declared with an option that is impossible.
    """
    queries = options.queries() or _of_shard(config)
    if not queries:
        return
    jobs = registry.all_jobs()
    for job in jobs:
        job.check(config)
    selection = select(queries, jobs, config.routing.rules, config.jobs, server=config.server, negate=options.negate)
    what = _what(queries, config, is_typed=bool(options.select))
    if not selection.queues:
        raise ConfigurationError(_nothing(what, selection, len(jobs), config, negate=options.negate))
    # With a weight, none of them comes before the others; `mode = "strict"` takes them in the order of the rules.
    config.worker.queues = [f"{queue},1" for queue in selection.queues]
    config.warnings.extend(_warnings(what, selection, config, negate=options.negate))


def _of_shard(config: Config) -> list[Query]:
    shard = config.shards.get(config.worker.shard)
    if shard is None or not shard.select or config.worker.queues or config.worker.groups:
        return []
    return [Query.parse(shard.select)]


def _what(queries: Sequence[Query], config: Config, *, is_typed: bool) -> str:
    texts = " or ".join(repr(query.text.strip()) for query in queries)
    return f"--select {texts}" if is_typed else f"the shard {config.worker.shard} ({texts})"


def _nothing(what: str, selection: Selection, jobs: int, config: Config, *, negate: bool) -> str:
    if selection.elsewhere:
        places = listed(map(str, selection.elsewhere))
        return (
            f"{what} leaves nothing to serve: its jobs go to {places}, and this worker works for {config.server}; give "
            "it a shard of that server (--shard)"
        )
    if not jobs:
        return f"{what} leaves nothing to serve: the application declares no jobs; name with -r the modules that do"
    if negate:
        return f"{what} leaves nothing to serve: with --negate no queue of a declared job is left"
    return (
        f"{what} chooses none of the {jobs} declared jobs, so there is no queue to serve: 'offsider jobs list' shows "
        "what they say of themselves"
    )


def _warnings(what: str, selection: Selection, config: Config, *, negate: bool) -> Iterator[str]:
    for each in selection.mixed:
        kind = "leaves out" if negate else "serves"
        yield (
            f"{what} {kind} the queue {each.queue} with all its jobs, {listed(each.others)} as well, which it does not "
            "choose: give them a queue of their own by a routing rule"
        )
    for each in selection.elsewhere:
        yield (
            f"{what} does not serve {each}, where {listed(each.chosen)} would wait: this worker works for the server "
            f"{config.server}"
        )
