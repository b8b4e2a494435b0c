"""The command that starts a worker which is missing, for the way out of a finding."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from offsider.wiring.config import Config
from offsider.wiring.queue_spec import EVERY, parse_all
from offsider.wiring.routing import MAIN

_COMMAND = "offsider worker -r YOUR_MODULE"


def worker_command(config: Config, *queues: str) -> str:
    """How workers are started for the server that ``config`` works for: mostly one command.

    Args:
        config: its shards are named where they fit.
        queues: which the workers have to serve; none: any.
    """
    here = {name: shard for name, shard in config.shards.items() if shard.server == config.server}
    serving = {name: {spec.name for spec in parse_all(shard.queues)} for name, shard in here.items()}
    fitting = {queue: _shard_of(queue, serving) for queue in queues}
    shards = dict.fromkeys(name for name in fitting.values() if name) or dict.fromkeys([*here][: not queues])
    commands = [f"{_COMMAND} --shard {name}" for name in shards]
    others = "".join(f" -q {queue}" for queue, name in fitting.items() if not name)
    if others or not commands:
        commands.append(f"{_COMMAND}{_of_server(config, [*here])}{others}")
    return " and ".join(commands)


def _shard_of(queue: str, serving: Mapping[str, Collection[str]]) -> str:
    return next((name for name, queues in serving.items() if queue in queues or EVERY in queues), "")


def _of_server(config: Config, shards: Sequence[str]) -> str:
    if config.server == MAIN:
        return ""
    return f" --shard {shards[0]}" if shards else f' --shard NAME, with server = "{config.server}" in [shards.NAME]'
