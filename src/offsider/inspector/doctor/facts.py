"""The facts that all checks use, read once; and the command that starts a missing worker, for the fix of a finding."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from offsider.config.application import django_project
from offsider.config.installation import Installation
from offsider.config.queue_spec import EVERY, QueueSpec, parse_all
from offsider.config.routing import MAIN
from offsider.inspector.process import Process, ProcessSet
from offsider.storage import owners, queues
from offsider.storage.owners import Lists
from offsider.storage.processes import published_jobs
from offsider.storage.redis import Redis
from offsider.storage.sample import lengths


@dataclass(frozen=True)
class Facts:
    """A snapshot of a server.

    Attributes:
        server: the server, with the configuration of the caller.
        redis: connection to the server.
        now: epoch seconds by the server's clock.
        processes: registered processes, ours and Ruby's.
        owners: owners of private lists, all ours.
        queues: number of jobs by queue; None if the key of the queue has another type.
        paused: names of paused queues.
        known: jobs that each process can run, as name -> digest of the signature; Ruby does not report them.
    """

    server: Installation
    redis: Redis
    now: float
    processes: Sequence[Process]
    owners: Sequence[Lists]
    queues: Mapping[str, int | None]
    paused: frozenset[str]
    known: Mapping[str, Mapping[str, str]]

    @property
    def redis_cli(self) -> str:
        """The program for a command with a key; with ``-c`` it follows the redirections of a Cluster."""
        return "redis-cli -c" if self.server.settings.is_cluster else "redis-cli"

    @property
    def ours(self) -> frozenset[str]:
        """The identities of our processes."""
        return frozenset(lists.identity for lists in self.owners)

    def serving(self, queue: str) -> list[Process]:
        """Return the processes that serve a queue."""
        return [process for process in self.processes if not {queue, EVERY}.isdisjoint(process.serving)]


def gather(server: Installation, redis: Redis, now: float) -> Facts:
    """Read the facts. Raises RedisFailure."""
    processes = list(ProcessSet(server))
    return Facts(
        server=server,
        redis=redis,
        now=now,
        processes=processes,
        owners=owners.registered(redis),
        queues=lengths(redis, queues.names(redis)),
        paused=frozenset(queues.paused(redis)),
        known=published_jobs(redis, [process.identity for process in processes]),
    )


def command(name: str) -> str:
    """Return a command of the program with the application's jobs, as this project runs it."""
    if django_project(os.environ) is not None:
        return f"python manage.py offsider {name}"
    return f"offsider {name} -r YOUR_MODULE"


def worker_command(server: Installation, *queues: str) -> str:
    """Return the commands that start workers for a server, usually one command.

    Args:
        server: the server; its configuration has the shards, which the commands name if they serve the queues.
        queues: queues that the workers must serve; default: any.
    """
    there = {name: shard for name, shard in server.config.shards.items() if shard.server == server.name}
    serving = {name: {spec.name for spec in parse_all(shard.queues)} for name, shard in there.items()}
    fitting = {queue: _shard_of(queue, serving) for queue in queues}
    shards = dict.fromkeys(name for name in fitting.values() if name) or dict.fromkeys([*there][: not queues])
    worker = command("worker")
    commands = [f"{worker} --shard {shlex.quote(name)}" for name in shards]
    others = "".join(f" -q {shlex.quote(str(QueueSpec(queue)))}" for queue, name in fitting.items() if not name)
    if others or not commands:
        commands.append(f"{worker}{_of_server(server, [*there])}{others}")
    return " and ".join(commands)


def _shard_of(queue: str, serving: Mapping[str, Collection[str]]) -> str:
    return next((name for name, queues in serving.items() if queue in queues or EVERY in queues), "")


def _of_server(server: Installation, shards: Sequence[str]) -> str:
    if server.name == MAIN:
        return ""
    return (
        f" --shard {shlex.quote(shards[0])}"
        if shards
        else f' --shard NAME, with server = "{server.name}" in [shards.NAME]'
    )
