"""Who routes jobs by which rules: they act where jobs are pushed, so a program with other rules misroutes its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from offsider.core.errors import RedisUnavailable
from offsider.inspector.process import ProcessSet
from offsider.storage import clients, registered
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.routing import UNROUTED


@dataclass(frozen=True, slots=True)
class RulesInUse:
    """Rules, and who routes by them.

    Attributes:
        rules: their digest; ``"none"`` for no rules.
        users: ``"worker on HOST"``, or the name of the program that pushed jobs in place of ``worker``; sorted.
    """

    rules: str
    users: Sequence[str]


def rules_in_use(config: Config | None = None) -> list[RulesInUse]:
    """The rules by which workers and clients of the last five minutes route, those of most users first.

    More than one means that they disagree. Ruby's processes route nothing and are left out.

    Args:
        config: whose servers, all of them: who pushes to one routes for the others as well. One that is away is left
            out, unless ``config`` works for it. Default: this process's.
    """
    config = config if config is not None else default_config()
    users: dict[str, set[str]] = {}
    for server in config.servers:
        with nullcontext() if server == config.server else suppress(RedisUnavailable):
            _note_users(config.for_server(server), users)
    found = (RulesInUse(rules, sorted(who)) for rules, who in users.items())
    return sorted(found, key=lambda each: (-len(each.users), each.rules))


def _note_users(config: Config, users: dict[str, set[str]]) -> None:
    redis = config.shared_redis()
    processes = list(ProcessSet(config))
    ours = registered.known_to(redis, [process.identity for process in processes])
    for process in processes:
        if process.identity in ours:
            users.setdefault(process.routing or UNROUTED, set()).add(f"worker on {process.hostname}")
    for client in clients.seen(redis):
        users.setdefault(client.rules, set()).add(f"{client.role} on {client.host}")
