"""The command that starts a missing worker, for the fix of a finding."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from offsider.config.installation import Installation
from offsider.config.queue_spec import EVERY, parse_all
from offsider.config.routing import MAIN

_COMMAND = "offsider worker -r YOUR_MODULE"


def worker_command(here: Installation, *queues: str) -> str:
    """Return the commands that start workers for a server, usually one command.

    Args:
        here: the server; its configuration has the shards, which the commands name if they serve the queues.
        queues: queues that the workers must serve; default: any.
    """
    there = {name: shard for name, shard in here.config.shards.items() if shard.server == here.server}
    serving = {name: {spec.name for spec in parse_all(shard.queues)} for name, shard in there.items()}
    fitting = {queue: _shard_of(queue, serving) for queue in queues}
    shards = dict.fromkeys(name for name in fitting.values() if name) or dict.fromkeys([*there][: not queues])
    commands = [f"{_COMMAND} --shard {name}" for name in shards]
    others = "".join(f" -q {queue}" for queue, name in fitting.items() if not name)
    if others or not commands:
        commands.append(f"{_COMMAND}{_of_server(here, [*there])}{others}")
    return " and ".join(commands)


def _shard_of(queue: str, serving: Mapping[str, Collection[str]]) -> str:
    return next((name for name, queues in serving.items() if queue in queues or EVERY in queues), "")


def _of_server(here: Installation, shards: Sequence[str]) -> str:
    if here.server == MAIN:
        return ""
    return f" --shard {shards[0]}" if shards else f' --shard NAME, with server = "{here.server}" in [shards.NAME]'
