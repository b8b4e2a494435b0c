"""``offsider worker --dry-run`` and ``--list-queues``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.cli.application import load_application
from offsider.cli.command import MAX_LETTERS
from offsider.cli.options import WorkerOptions, configured
from offsider.cli.text import plain, say
from offsider.config.capsule import Capsule
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.jobs.routes import serve_selected
from offsider.worker.boot_checks import refuse_green_threads

if TYPE_CHECKING:
    from offsider.config.config import Config


def show_plan(options: WorkerOptions) -> int:
    """Print the plan or the queue names, and return the exit code.

    Raises:
        ConfigurationError: the worker could not start; checks that need the server are skipped.
    """
    config = configured(options)
    load_application(config.worker.require, config)
    refuse_green_threads()
    registry.check_all(config)
    config.check_rules()
    config.warnings.extend(serve_selected(config, options.queries(), negate=options.negate))
    lines = queue_names(config) if options.list_queues else [*plan(config)]
    for line in lines:
        say(plain(line, MAX_LETTERS))
    for warning in config.warnings:
        say(plain(warning, MAX_LETTERS), start="offsider: ", err=True)
    return 0


def plan(config: Config) -> Iterator[str]:
    """Yield the lines of the plan; queues in the syntax of ``-q``."""
    if config.worker.shard:
        yield f"shard: {config.worker.shard}"
    yield f"server: {config.server}, {config.redis.redacted_url}"
    yield f"environment: {config.worker.environment}{f', settings of {config.file}' if config.file else ''}"
    yield f"processes: {config.worker.processes or 1}"
    yield from _capsules(config)


def queue_names(config: Config) -> list[str]:
    """Return the unique queue names of all capsules; ``*`` means every queue."""
    return list(dict.fromkeys(spec.name for capsule in config.capsules.values() for spec in capsule.specs))


def _capsules(config: Config) -> Iterator[str]:
    for capsule in config.capsules.values():
        yield f"capsule {capsule.name}: {counted(capsule.concurrency, 'thread')}, {_order(capsule)}"
        yield from (f"  {spec}" for spec in capsule.specs)


def _order(capsule: Capsule) -> str:
    return {"strict": "strict order", "weighted": "by weight", "random": "in random order"}[capsule.mode]
