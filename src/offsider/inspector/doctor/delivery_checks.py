"""Check the delivery: jobs of dead processes, stuck locks, overdue jobs, foreign keys, and jobs in transit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.doctor.facts import Facts, worker_command
from offsider.inspector.finding import Finding, error, ok, warn
from offsider.storage import keyspace, owners, places
from offsider.storage.keyspace import walk
from offsider.storage.sample import overdue

#: A scheduler moves due jobs within milliseconds; Ruby's polls every few seconds.
LATE_SECONDS = 60.0
WALK_SECONDS = 2.0
#: Maximum number of queues in a suggested command.
_NAMED = 5


def check_orphans(facts: Facts) -> Iterator[Finding]:
    """Find jobs in private lists of dead processes, if no live worker will requeue them."""
    alive = keyspace.living(facts.redis, [lists.identity for lists in facts.owners])
    held = {lists.identity: owners.held(facts.redis, lists) for lists in facts.owners if lists.identity not in alive}
    dead = sorted(identity for identity, jobs in held.items() if jobs)
    if not dead:
        yield ok("orphans", "no dead process owns jobs")
        return
    if not alive:
        jobs = sum(held.values())
        yield error(
            "orphans",
            f"dead processes own {counted(jobs, 'job')}: {listed(dead)}",
            cause="only a live worker requeues them, and no worker is alive",
            action=f"start a worker: {worker_command(facts.server)}",
            numbers={"jobs": jobs},
        )


def check_locks(facts: Facts) -> Iterator[Finding]:
    """Find leases without an expiry."""
    stuck = keyspace.stuck(facts.redis, [lists.identity for lists in facts.owners])
    if stuck:
        yield error(
            "locks",
            f"{listed(stuck)} will never expire",
            cause="workers wait forever for such a key to expire, so jobs of dead processes are not requeued",
            action=f"{facts.redis_cli} DEL {shell_words(stuck[0])}",
        )
    else:
        yield ok("locks", "no lock is stuck")


def check_due(facts: Facts) -> Iterator[Finding]:
    """Find scheduled jobs and retries that are overdue."""
    late = {where: jobs for where, jobs in overdue(facts.redis, facts.now - LATE_SECONDS).items() if jobs}
    if late:
        places = ", ".join(f"{counted(jobs, 'job')} of the {where} set" for where, jobs in late.items())
        yield error(
            "scheduler",
            f"overdue by more than a minute: {places}",
            cause="no scheduler moves them, or their queues reject them",
            action="start a worker, or search the workers' logs for 'is not a list'",
        )
    else:
        yield ok("scheduler", "no due job waits")


def check_keyspace(facts: Facts) -> Iterator[Finding]:
    """Find keys that no worker of ours uses."""
    found = walk(facts.redis, WALK_SECONDS)
    if found.queues:
        yield error(
            "unregistered",
            f"jobs wait in queues that no client has registered: {listed(found.queues)}",
            cause="pages and other commands do not show these queues",
            action=f"{worker_command(facts.server, *found.queues[:_NAMED])}: a worker registers its queues; the client "
            f"must do so at each push: SADD {facts.redis.keys.queues} {shlex.quote(found.queues[0])}",
        )
    if found.unreadable:
        yield error(
            "queue names",
            f"jobs wait in queues whose names are not UTF-8: {listed(found.unreadable)}",
            cause="no worker can serve these queues, and pages and other commands do not show them",
            action="rename them in the program that pushes to them, and move each job to the new queue: "
            f"{facts.redis_cli} LMOVE",
        )
    if found.foreign_lists:
        yield warn(
            "foreign lists",
            f"private lists of other reliable fetchers exist: {listed(found.foreign_lists)}",
            cause="only processes of Sidekiq Pro or GitLab requeue the jobs in them",
            action=f"if no such process runs anymore, start one once, or move each job: {facts.redis_cli} LMOVE",
        )
    yield from _other_prefixes(facts, found.prefixes)
    if not found.complete:
        yield ok("keyspace", f"too many keys to scan all: only {WALK_SECONDS:g} s of them were examined")


def _other_prefixes(facts: Facts, prefixes: list[str]) -> Iterator[Finding]:
    """Report other prefixes only if ours has no data: several applications may share a server."""
    if prefixes and not (facts.queues and facts.processes):
        own = facts.server.settings.prefix
        missing = "queue" if not facts.queues else "worker"
        yield warn(
            "prefix",
            f"there is no {missing} under the prefix {own!r}, but there are queues under "
            + listed([repr(prefix) for prefix in prefixes]),
            cause="clients and workers with different redis.key_prefix do not see each other's jobs",
            action=f"set redis.key_prefix = {prefixes[0]!r} where it is missing",
        )


def check_transit(facts: Facts) -> Iterator[Finding]:
    """Find jobs that an interrupted move to another server left in transit."""
    for server, jobs in places.transits(facts.redis).items():
        yield warn(
            "transit",
            f"{counted(jobs, 'job')} in transit to the server {server}",
            cause="unless 'offsider queues move' is running, one was interrupted; its jobs are stored but do not run",
            action=f"within a day, run it again: offsider queues move FROM TO --to-server {shlex.quote(server)} (it "
            "delivers these jobs first, each once)",
        )


DELIVERY_CHECKS = (check_orphans, check_locks, check_due, check_keyspace, check_transit)
