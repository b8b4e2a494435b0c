"""Who routes jobs by which rules: they act where jobs are pushed, so a program with other rules misroutes its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from offsider.inspector.process import Process, ProcessSet
from offsider.storage import clients, registered
from offsider.storage.clients import SeenClient
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
        config: which server; default: this process's.
    """
    config = config if config is not None else default_config()
    redis = config.shared_redis()
    processes = list(ProcessSet(config))
    ours = registered.known_to(redis, [process.identity for process in processes])
    return compared((process for process in processes if process.identity in ours), clients.seen(redis))


def compared(workers: Iterable[Process], pushing: Iterable[SeenClient]) -> list[RulesInUse]:
    """The same of what was read already; ``workers`` are offsider's own."""
    users: dict[str, set[str]] = {}
    for process in workers:
        users.setdefault(process.routing or UNROUTED, set()).add(f"worker on {process.hostname}")
    for client in pushing:
        users.setdefault(client.rules, set()).add(f"{client.role} on {client.host}")
    return _by_number(users)


def _by_number(users: Mapping[str, set[str]]) -> list[RulesInUse]:
    found = (RulesInUse(rules, sorted(who)) for rules, who in users.items())
    return sorted(found, key=lambda each: (-len(each.users), each.rules))
