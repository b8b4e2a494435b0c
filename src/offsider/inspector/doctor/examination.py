"""The whole examination: all checks, one after another. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from offsider.core.errors import OffsiderError, RedisFailure, RedisUnavailable
from offsider.inspector.doctor.delivery_checks import DELIVERY_CHECKS
from offsider.inspector.doctor.facts import Facts, gather
from offsider.inspector.doctor.finding import Finding, bad, warn
from offsider.inspector.doctor.job_checks import JOB_CHECKS
from offsider.inspector.doctor.load_checks import LOAD_CHECKS
from offsider.inspector.doctor.migration_checks import MIGRATION_CHECKS
from offsider.inspector.doctor.process_checks import PROCESS_CHECKS
from offsider.inspector.doctor.routing_checks import ROUTING_CHECKS
from offsider.inspector.doctor.server_checks import SERVER_CHECKS
from offsider.inspector.doctor.switch_checks import SWITCH_CHECKS
from offsider.inspector.everywhere import ask_all, split
from offsider.storage.redis import Redis
from offsider.storage.server_info import server_info
from offsider.storage.vitals import vitals
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.routing import MAIN

#: What a check looks at: the facts, or for those of extensions the configuration.
Looked = TypeVar("Looked", Facts, Config)


def examine(config: Config | None = None) -> list[Finding]:
    """Every finding, the worst first. A server that cannot be reached is a finding as well.

    Takes a few seconds at most, however much is stored: jobs are sampled, and the walk over all keys is cut short.

    Args:
        config: which server, and what is expected of it; default: this process's.
    """
    config = config if config is not None else default_config()
    return _worst_first(_findings(config, config.shared_redis()))


def examine_all(config: Config | None = None) -> list[Finding]:
    """The same of every server of the configuration, at once. What is alike on all of them is one finding.

    Args:
        config: whose servers; default: this process's.
    """
    config = config if config is not None else default_config()
    found: dict[Finding, list[str]] = {}
    examined, _ = split(ask_all(config, examine))
    for server, findings in examined.items():
        for finding in findings:
            found.setdefault(finding, []).append(server)
    every = list(config.servers)
    return _worst_first(
        finding if servers == every else replace(finding, servers=tuple(servers)) for finding, servers in found.items()
    )


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity, reverse=True)


def _findings(config: Config, redis: Redis) -> list[Finding]:
    findings: list[Finding] = []
    try:
        info, seen = server_info(redis), vitals(redis)
        findings += [finding for check in SERVER_CHECKS for finding in check(info, seen)]
        facts = gather(config, redis, seen)
    except OffsiderError as error:
        return [*findings, _unreachable(config, error)]
    of_what_runs = (*PROCESS_CHECKS, *LOAD_CHECKS, *ROUTING_CHECKS, *SWITCH_CHECKS)
    of_what_is_stored = (*MIGRATION_CHECKS, *DELIVERY_CHECKS, *JOB_CHECKS)
    for check in (*of_what_runs, *of_what_is_stored):
        findings += _careful(check, facts)
    for check_of_extension in config.doctor_checks:
        findings += _careful(check_of_extension, config)
    return findings


def _careful(check: Callable[[Looked], Iterable[Finding]], looked: Looked) -> list[Finding]:
    """One check that the server refuses must not hide the others."""
    name = check.__name__.removeprefix("check_")
    try:
        return list(check(looked))
    except RedisUnavailable as error:
        return [
            warn(
                name,
                f"this could not be looked at: {error}",
                why="it is one of those that have to be asked",
                way_out="start that server, and look again",
            )
        ]
    except RedisFailure as error:
        return [
            warn(
                name,
                f"this could not be looked at: {error}",
                why="a key is of the wrong type, or this user may not read it",
                way_out="see the message; the ACL line is in docs/deployment.md",
            )
        ]


def _unreachable(config: Config, error: OffsiderError) -> Finding:
    where = config.redis.redacted_url
    setting = "redis.url" if config.server == MAIN else f"servers.{config.server}.url"
    kind = "cannot be reached" if isinstance(error, RedisUnavailable) else "refuses to be asked"
    return bad(
        "server",
        f"{where} {kind}: {error}",
        why="nothing can be pushed to it, and none of its workers runs",
        way_out=f"is {setting} right? redis-cli -u {where} PING",
    )
