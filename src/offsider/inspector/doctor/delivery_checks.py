"""The delivery: jobs that lie where nobody takes them, and locks that nobody opens."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.core.wording import counted
from offsider.inspector.doctor.facts import Facts
from offsider.inspector.doctor.finding import Finding, bad, ok, warn
from offsider.inspector.doctor.listing import listed
from offsider.inspector.doctor.worker_command import worker_command
from offsider.storage import leases, owners
from offsider.storage.cross_section import overdue
from offsider.storage.keyspace import walk

#: A scheduler moves what is due within milliseconds; Ruby's look every few seconds.
LATE_SECONDS = 60.0
WALK_SECONDS = 2.0


def check_orphans(facts: Facts) -> Iterator[Finding]:
    """Do private lists of dead processes hold jobs?"""
    alive = leases.living(facts.redis, [lists.identity for lists in facts.owners])
    held = {lists.identity: owners.held(facts.redis, lists) for lists in facts.owners if lists.identity not in alive}
    dead = sorted(identity for identity, jobs in held.items() if jobs)
    if not dead:
        yield ok("orphans", "no dead process holds jobs")
        return
    what = f"dead processes hold {counted(sum(held.values()), 'job')}: {listed(dead)}"
    if alive:
        life = facts.config.worker.liveness_seconds
        yield warn(
            "orphans",
            what,
            why="they have stopped in the middle, and run again once they are given back",
            way_out=f"wait: a live worker gives them back about {life:g} s after the death, longer after an outage",
        )
    else:
        yield bad(
            "orphans",
            what,
            why="workers give back what the dead have left, and none is alive",
            way_out=f"start a worker: {worker_command(facts.config)}",
        )


def check_locks(facts: Facts) -> Iterator[Finding]:
    """Are there leases without an end?"""
    stuck = leases.stuck(facts.redis, [lists.identity for lists in facts.owners])
    if stuck:
        yield bad(
            "locks",
            f"{listed(stuck)} will never expire",
            why="whoever waits for the end of such a key waits for ever: jobs of dead processes are not given back",
            way_out=f"redis-cli DEL {stuck[0]}",
        )
    else:
        yield ok("locks", "no lock is stuck")


def check_due(facts: Facts) -> Iterator[Finding]:
    """Are jobs moved at their time?"""
    late = {where: jobs for where, jobs in overdue(facts.redis, facts.vitals.now - LATE_SECONDS).items() if jobs}
    if late:
        places = ", ".join(f"{counted(jobs, 'job')} of the {where} set" for where, jobs in late.items())
        yield bad(
            "scheduler",
            f"overdue by more than a minute: {places}",
            why="no scheduler moves them, or their queues refuse them",
            way_out="start a worker, or look for 'a job that is due waits' in the workers' logs",
        )
    else:
        yield ok("scheduler", "nothing that is due waits")


def check_keyspace(facts: Facts) -> Iterator[Finding]:
    """Does something lie where nothing points to?"""
    found = walk(facts.redis, WALK_SECONDS)
    if found.foreign_lists:
        yield warn(
            "foreign lists",
            f"other reliable fetchers keep private lists here: {listed(found.foreign_lists)}",
            why="only Sidekiq Pro's or GitLab's processes give back the jobs in them",
            way_out="if no such process runs any more, start one of them once, or move each job: redis-cli LMOVE",
        )
    if found.deploy_locks:
        yield warn(
            "deploy locks",
            f"{listed(found.deploy_locks)} will never expire",
            why="deploys of that label leave no mark any more",
            way_out=f"redis-cli DEL {found.deploy_locks[0]}",
        )
    yield from _other_prefixes(facts, found.prefixes)
    if not found.complete:
        yield ok("keyspace", f"there are many keys: only those seen within {WALK_SECONDS:g} s were looked at")


def _other_prefixes(facts: Facts, prefixes: list[str]) -> Iterator[Finding]:
    """Only odd when there is nothing under our own: many applications may share a server."""
    if prefixes and not (facts.queues and facts.processes):
        own = facts.config.redis.key_prefix
        missing = "queue" if not facts.queues else "worker"
        yield warn(
            "prefix",
            f"there is no {missing} under the prefix {own!r}, but there are queues under "
            + listed([repr(prefix) for prefix in prefixes]),
            why="clients and workers that differ in redis.key_prefix never meet",
            way_out=f"set redis.key_prefix = {prefixes[0]!r} where it is missing",
        )


DELIVERY_CHECKS = (check_orphans, check_locks, check_due, check_keyspace)
