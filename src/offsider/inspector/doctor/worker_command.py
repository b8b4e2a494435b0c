"""The command that starts a worker which is missing, for the way out of a finding."""

from __future__ import annotations

from offsider.wiring.config import Config
from offsider.wiring.queue_spec import EVERY, parse_all
from offsider.wiring.routing import MAIN

_COMMAND = "offsider worker -r YOUR_MODULE"


def worker_command(config: Config, queue: str = "") -> str:
    """How a worker is started for the server that ``config`` works for.

    Args:
        config: its shards are named where one fits.
        queue: which the worker has to serve; empty: any.
    """
    here = {name: shard for name, shard in config.shards.items() if shard.server == config.server}
    for name, shard in here.items():
        served = {spec.name for spec in parse_all(shard.queues)}
        if not queue or queue in served or EVERY in served:
            return f"{_COMMAND} --shard {name}"
    if config.server == MAIN:
        return f"{_COMMAND} -q {queue}" if queue else _COMMAND
    of = f"--shard {next(iter(here))}" if here else f'--shard NAME, with server = "{config.server}" in [shards.NAME]'
    return f"{_COMMAND} {of}{f' -q {queue}' if queue else ''}"
