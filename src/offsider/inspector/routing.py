"""Routing rules in use by program: rules apply at the push, so a program with other rules misroutes its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import UNROUTED
from offsider.core.errors import RedisUnavailable
from offsider.inspector.process import ProcessSet
from offsider.storage import clients
from offsider.storage.processes import published_jobs


@dataclass(frozen=True, slots=True)
class RulesInUse:
    """Routing rules and the programs that use them.

    Attributes:
        rules: digest of the rules; ``"none"`` for no rules.
        users: ``"worker on HOST"``, or ``"PROGRAM on HOST"`` for a program that pushed jobs; sorted.
    """

    rules: str
    users: Sequence[str]


def rules_in_use(config: Config | Installation | None = None) -> list[RulesInUse]:
    """Return the rules of workers and of clients of the last five minutes, sorted by number of users, highest first.

    More than one item means that programs disagree. Ruby processes do not route and are not included.

    Args:
        config: the configuration whose servers to read, all of them, since a program that pushes to one server routes
            for all. An unreachable server is skipped, unless it is the server of ``config``. Default: the
            configuration of this process.
    """
    here = Installation.of(config)
    users: dict[str, set[str]] = {}
    for server in here.config.servers:
        with nullcontext() if server == here.server else suppress(RedisUnavailable):
            _note_users(here.for_server(server), users)
    found = (RulesInUse(rules, sorted(who)) for rules, who in users.items())
    return sorted(found, key=lambda each: (-len(each.users), each.rules))


def _note_users(here: Installation, users: dict[str, set[str]]) -> None:
    redis = here.redis
    processes = list(ProcessSet(here))
    ours = published_jobs(redis, [process.identity for process in processes])
    for process in processes:
        if process.identity in ours:
            users.setdefault(process.routing or UNROUTED, set()).add(f"worker on {process.hostname}")
    for client in clients.seen(redis):
        users.setdefault(client.rules, set()).add(f"{client.role} on {client.host}")
