"""Check the setup of workers and the stored data of a server.

Workers: presence, clocks, round trips and versions. Data: jobs that no process moves, growing sets, controls, and keys
of other programs. `worker_command` proposes the command for a missing worker.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator

from offsider.client.relay_source import Source
from offsider.client.spool import MEMORY, Spool
from offsider.config.addresses import JOBS
from offsider.config.application import django_project
from offsider.config.installation import Installation
from offsider.config.routing import EVERY, MAIN, QueueSpec, parse_all
from offsider.config.web_tab import WebLink
from offsider.core.wording import counted, listed, shell_words
from offsider.inspector.controls import ControlInForce, Controls
from offsider.inspector.finding import Finding, error, warn
from offsider.inspector.findings.look import Look
from offsider.inspector.findings.server_checks import check_wire_version
from offsider.storage import job_sets, keyspace, owners, places, quarantine
from offsider.storage.due_jobs import scheduler_lag_seconds

#: As many queues as a finding lists.
MAX_NAMED = 5
#: Round trips of this host, and of a worker, which runs jobs at the same time.
SLOW_SECONDS, SLOW_WORKER_SECONDS = 0.01, 0.05
DRIFT_SECONDS = 1.0
#: A process sends a heartbeat every 10 s. After this long without one it hangs, or its clock is wrong.
SILENT_SECONDS = 25.0
#: A starting process is short of CPU, and its round trip is measured only by its last heartbeat.
YOUNG_SECONDS = 60.0
#: A scheduler moves due jobs within milliseconds; Ruby's polls every few seconds.
LATE_SECONDS = 60.0
WALK_SECONDS = 2.0
#: A relay moves rows within a second.
OLD_SECONDS = 60.0
NEARLY_FULL = 0.9


def worker_command(server: Installation, *queues: str) -> str:
    """Return the command that starts a worker of a server, with the shard that serves the first queue, if any does.

    Args:
        server: the server; its configuration has the shards.
        queues: queues that the worker must serve, of which the command names five; default: any.
    """
    worker = "offsider worker -r YOUR_MODULE"
    if django_project(os.environ) is not None:
        worker = "python manage.py offsider worker"
    shards = {name: shard for name, shard in server.config.shards.items() if shard.server == server.name}
    for name, shard in shards.items():
        if not queues or not {EVERY, queues[0]}.isdisjoint(spec.name for spec in parse_all(shard.queues)):
            return f"{worker} --shard {shlex.quote(name)}"
    if server.name != MAIN and shards:
        worker += f" --shard {shlex.quote(next(iter(shards)))}"
    elif server.name != MAIN:
        worker += f' --shard NAME, with server = "{server.name}" in [shards.NAME]'
    return worker + "".join(f" -q {shlex.quote(str(QueueSpec(queue)))}" for queue in queues[:MAX_NAMED])


# ------------------------------------------------------------------------------------------------------------ workers
def check_presence(look: Look) -> Iterator[Finding]:
    """Check that workers are registered."""
    if not look.processes:
        jobs = sum(queue.size for queue in look.queues)
        yield (error if jobs else warn)(
            "workers",
            "no worker is registered" + (f"; {counted(jobs, 'job')} waiting" if jobs else ""),
            cause="no job runs, and scheduled jobs do not move to their queues",
            actions=(worker_command(look.server),),
            kind="stopped",
            numbers={"jobs": jobs},
            harm=sum(look.waiting_harm(queue.name, queue.size) for queue in look.queues),
            buttons=(WebLink("Jobs", JOBS),),
        )


def check_latency(look: Look) -> Iterator[Finding]:
    """Check the round trips of this host and of the workers to the server."""
    took = {"this host": look.clock.round_trip_seconds} if look.clock.round_trip_seconds >= SLOW_SECONDS else {}
    for process in look.processes:
        seconds = process.round_trip_microseconds / 1_000_000
        if seconds > SLOW_WORKER_SECONDS and look.now - process.started_at >= YOUNG_SECONDS:
            took[process.identity] = seconds
    if took:
        slowest = max(took, key=lambda name: took[name])
        yield warn(
            "latency",
            f"a round trip to the server takes up to {took[slowest] * 1000:.0f} ms for {listed(took)}",
            cause="each push needs one round trip, and each job two; or these processes are short of CPU",
            actions=("run clients and workers close to the server; check redis-cli --latency and SLOWLOG GET",),
            subject=slowest,
            numbers={"round_trip_seconds": took[slowest]},
        )


def check_clocks(look: Look) -> Iterator[Finding]:
    """Compare the clocks of this host and of the workers with the server's; find workers without a recent heartbeat."""
    ahead_seconds = -look.clock.ahead_seconds
    if abs(ahead_seconds) >= DRIFT_SECONDS:
        yield _drift("this host", ahead_seconds, "", "synchronize the clocks: timedatectl set-ntp true")
    for process in look.processes:
        ahead_seconds = process.beat_at - look.now
        if process.beat_at and not -SILENT_SECONDS <= ahead_seconds <= DRIFT_SECONDS:
            host, identity = shell_words(process.hostname), shell_words(process.identity)
            action = f"on {host}: timedatectl set-ntp true; if it hangs: offsider dump {identity}"
            yield _drift(process.identity, ahead_seconds, ", or its last heartbeat is that old", action)


def _drift(name: str, ahead_seconds: float, or_silent: str, action: str) -> Finding:
    how = "ahead of the server's" if ahead_seconds > 0 else f"behind the server's{or_silent}"
    return warn(
        "clock",
        f"the clock of {name} is {abs(ahead_seconds):.0f} s {how}",
        cause="times in its jobs are wrong: delays, latencies and retries",
        actions=(action,),
        subject=name,
        numbers={"ahead_seconds": ahead_seconds},
    )


def check_versions(look: Look) -> Iterator[Finding]:
    """Check that the Ruby processes on the same server can read and show our data."""
    ours = {lists.identity for lists in look.owners}
    rubys = {process.identity: process.version for process in look.processes if process.identity not in ours}
    return check_wire_version(look.server.settings.wire_version, rubys)


# ------------------------------------------------------------------------------------- jobs that do not move or run
def check_orphans(look: Look) -> Iterator[Finding]:
    """Find jobs in private lists of dead processes, if no live worker will requeue them."""
    if keyspace.living(look.redis, [lists.identity for lists in look.owners]):
        return
    held = {lists.identity: jobs for lists in look.owners if (jobs := owners.held(look.redis, lists))}
    if held:
        yield error(
            "orphans",
            f"dead processes own {counted(sum(held.values()), 'job')}: {listed(sorted(held))}",
            cause="only a live worker requeues them, and no worker is alive",
            actions=(f"start a worker: {worker_command(look.server)}",),
            subject=min(held),
            numbers={"jobs": sum(held.values()), "processes": len(held)},
        )


def check_locks(look: Look) -> Iterator[Finding]:
    """Find leases without an expiry."""
    stuck = keyspace.stuck(look.redis, [lists.identity for lists in look.owners])
    if stuck:
        yield error(
            "locks",
            f"{listed(stuck)} will never expire",
            cause="workers wait forever for such a key to expire, so jobs of dead processes are not requeued",
            actions=(f"{look.redis_cli} DEL {shell_words(stuck[0])}",),
            subject=stuck[0],
            numbers={"keys": len(stuck)},
        )


def check_due(look: Look) -> Iterator[Finding]:
    """Find scheduled jobs and retries that are overdue."""
    for name, late_seconds in scheduler_lag_seconds(look.redis).items():
        if late_seconds >= LATE_SECONDS:
            yield error(
                "scheduler",
                f"a job of the {name} set is overdue by {late_seconds:.0f} s",
                cause="no scheduler moves due jobs, or the queue rejects this one",
                actions=("start a worker, or search the workers' logs for 'is not a list'",),
                subject=name,
                numbers={"late_seconds": late_seconds},
                since=look.now - late_seconds,
            )


def check_transit(look: Look) -> Iterator[Finding]:
    """Find jobs that an interrupted move to another server left in transit."""
    for server, jobs in places.transits(look.redis).items():
        yield warn(
            "transit",
            f"{counted(jobs, 'job')} in transit to the server {server}",
            cause="unless 'offsider queues move' is running, one was interrupted; its jobs are stored but do not run",
            actions=(f"within a day, run it again: offsider queues move FROM TO --to-server {shlex.quote(server)}",),
            subject=server,
            numbers={"jobs": jobs},
        )


# --------------------------------------------------------------------------------------------------- growing sets
def check_limits(look: Look) -> Iterator[Finding]:
    """Check whether the dead set or the quarantine is nearly full."""
    redis, dead_limit = look.redis, look.server.config.worker.dead_max_jobs
    for name, size, limit, cause in (
        (
            "dead set",
            job_sets.size(redis, redis.keys.dead),
            dead_limit,
            "when it is full, each new dead job deletes the oldest",
        ),
        ("quarantine", quarantine.size(redis), quarantine.MAX_JOBS, "when it is full, dropped jobs are deleted"),
    ):
        if size >= limit * NEARLY_FULL:
            yield warn(
                name,
                f"the {name} has {counted(size, 'job')}, the limit is {limit:,}",
                cause=f"{cause}, reviewed or not",
                actions=(f"review the jobs: offsider jobs --where {name.partition(' ')[0]}",),
                subject=name,
                numbers={"jobs": size, "limit": limit},
            )


# ------------------------------------------------------------------------------------------- controls, foreign keys
def check_controls(look: Look) -> Iterator[Finding]:
    """Find controls that are not the same on all servers."""
    for control in Controls(look.server).look().controls:
        if control.missing_on or control.differs_on:
            yield warn(
                "partial controls",
                f"not every server has the control of {_where(control)}",
                cause="the same jobs are treated differently on some servers",
                actions=("set the control again, or end it: offsider controls",),
                subject=control.subject,
                since=control.since or None,
            )


def _where(control: ControlInForce) -> str:
    parts = (("not on", control.missing_on), ("different on", control.differs_on))
    return f"{control.subject} ({'; '.join(f'{how} {listed(servers)}' for how, servers in parts if servers)})"


def check_keyspace(look: Look) -> Iterator[Finding]:
    """Find keys that no worker of ours uses."""
    found = keyspace.walk(look.redis, WALK_SECONDS)
    if found.queues:
        yield error(
            "unregistered",
            f"jobs wait in queues that no client has registered: {listed(found.queues)}",
            cause="pages and other commands do not show these queues",
            actions=(
                f"{worker_command(look.server, *found.queues)} (a worker registers its queues)",
                f"register it at each push: SADD {look.redis.keys.queues} {shlex.quote(found.queues[0])}",
            ),
            subject=found.queues[0],
            numbers={"queues": len(found.queues)},
        )
    if found.foreign_lists:
        yield warn(
            "foreign lists",
            f"private lists of other reliable fetchers exist: {listed(found.foreign_lists)}",
            cause="only processes of Sidekiq Pro or GitLab requeue the jobs in them",
            actions=(f"if no such process runs anymore, start one once, or move each job: {look.redis_cli} LMOVE",),
            subject=found.foreign_lists[0],
            numbers={"lists": len(found.foreign_lists)},
        )
    # Several applications may share a server: other prefixes are a problem only if ours has no data.
    if found.prefixes and not (look.queues and look.processes):
        missing = "queue" if not look.queues else "worker"
        yield warn(
            "prefix",
            f"there is no {missing} under the prefix {look.server.settings.prefix!r}, but there are queues under "
            + listed(map(repr, found.prefixes)),
            cause="clients and workers with different redis.key_prefix do not see each other's jobs",
            actions=(f"set redis.key_prefix = {found.prefixes[0]!r} where it is missing",),
            subject=found.prefixes[0],
            numbers={"prefixes": len(found.prefixes)},
        )


def find_rows(server: Installation, source: Source, to_read: str, to_move: str) -> Iterator[Finding]:
    """Check the rows of an outbox or a spool for a server.

    Args:
        server: the server.
        source: the rows.
        to_read: what to do if they cannot be read.
        to_move: what to do if they are old.
    """
    noun = source.noun
    try:
        count, oldest = source.waiting().get(server.name, (0, 0.0))
    except Exception as failure:  # noqa: BLE001  # of any database driver
        yield error(
            noun,
            f"the {noun} cannot be read: {type(failure).__name__}: {failure}",
            cause="no process can move its rows to Redis",
            actions=(f"start the database; {to_read}",),
        )
        return
    age = time.time() - oldest
    if count and age > OLD_SECONDS:
        yield warn(
            noun,
            f"{counted(count, 'row')} of the {noun}, the oldest for {age:.0f} seconds",
            cause="these jobs are not in Redis yet",
            actions=(f"{to_move}, and look for its errors in the log",),
            numbers={"rows": count},
            since=oldest,
        )


def check_spool(look: Look) -> Iterator[Finding]:
    """Check the spool of this machine. One in memory is known to its process only."""
    settings = look.server.config.client
    if settings.spool and settings.spool != MEMORY:
        spool = Spool(settings.spool, settings.spool_max_jobs)
        yield from find_rows(look.server, spool, "correct client.spool", "run a worker with this spool on this machine")
        spool.close()


#: Checks of each refresh, and further ones of the doctor, which take longer or judge this host.
CHECKS = (check_presence, check_versions, check_due, check_transit, check_limits)
DOCTOR_CHECKS = (check_latency, check_clocks, check_orphans, check_locks, check_controls, check_keyspace, check_spool)
