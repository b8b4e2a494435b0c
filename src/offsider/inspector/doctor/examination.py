"""Run all checks, one after another, without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.errors import OffsiderError, RedisFailure, RedisUnavailable
from offsider.inspector.all_servers import query_all, split
from offsider.inspector.doctor.delivery_checks import DELIVERY_CHECKS
from offsider.inspector.doctor.facts import Facts, gather
from offsider.inspector.doctor.job_checks import JOB_CHECKS
from offsider.inspector.doctor.process_checks import PROCESS_CHECKS
from offsider.inspector.doctor.queue_checks import QUEUE_CHECKS
from offsider.inspector.doctor.server_checks import CLOCK_CHECKS, SERVER_CHECKS, check_scripts
from offsider.inspector.finding import Finding, error, warn
from offsider.storage.clocks import compare
from offsider.storage.cluster import split_url
from offsider.storage.redis import Redis
from offsider.storage.server_info import server_info

#: Readings of the server's clock; the fastest one is used.
READINGS = 10

#: Input of a check: the facts, or for checks of extensions the server.
Input = TypeVar("Input", Facts, Installation)


def examine(config: Config | Installation | None = None) -> list[Finding]:
    """Examine a server and return the findings, worst first. An unreachable server is a finding, too.

    Takes a few seconds at most, regardless of the data size: jobs are sampled, and the scan of all keys is limited.

    Args:
        config: the server and its settings; default: the configuration of this process.
    """
    server = Installation.of(config)
    return _worst_first(_findings(server, server.redis))


def examine_all(config: Config | Installation | None = None) -> list[Finding]:
    """Examine all servers of the configuration in parallel. Equal findings are merged into one.

    Args:
        config: the configuration whose servers to examine; default: the configuration of this process.
    """
    here = Installation.of(config)
    found: dict[Finding, list[str]] = {}
    examined, _ = split(query_all(here, examine))
    for server, findings in examined.items():
        for finding in findings:
            found.setdefault(finding, []).append(server)
    every = list(here.config.servers)
    return _worst_first(
        finding if servers == every else replace(finding, servers=tuple(servers)) for finding, servers in found.items()
    )


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity, reverse=True)


def _findings(server: Installation, redis: Redis) -> list[Finding]:
    findings: list[Finding] = []
    try:
        info, clock = server_info(redis), compare(redis, server.config.clock, times=READINGS)
        findings += [finding for check in SERVER_CHECKS for finding in check(info)]
        findings += [finding for check in CLOCK_CHECKS for finding in check(clock)]
        findings += check_scripts(redis)
        facts = gather(server, redis, clock.now)
    except OffsiderError as failure:
        return [*findings, _unreachable(server, failure)]
    for check in (*PROCESS_CHECKS, *QUEUE_CHECKS, *DELIVERY_CHECKS, *JOB_CHECKS):
        findings += _careful(check, facts)
    for check_of_extension in server.config.doctor_checks:
        findings += _careful(check_of_extension, server)
    return findings


def _careful(check: Callable[[Input], Iterable[Finding]], argument: Input) -> list[Finding]:
    """Run a check; if the server refuses a command, return that as a finding, so that other checks still run."""
    name = check.__name__.removeprefix("check_")
    try:
        return list(check(argument))
    except RedisFailure as failure:
        why = "the check needs this server"
        fix = "start that server, and run offsider doctor again"
        if not isinstance(failure, RedisUnavailable):
            why = "a key has the wrong type, or the ACL does not allow this user to read it"
            fix = "see the message; the ACL line is in docs/deployment.md"
        return [warn(name, f"the check failed: {failure}", cause=why, action=fix)]


def _unreachable(server: Installation, failure: OffsiderError) -> Finding:
    where = server.settings.redacted_url
    setting = "redis.url" if server.name == MAIN else f"servers.{server.name}.url"
    what, command = str(failure), f"-u {where} PING"
    if server.settings.is_cluster:
        command = f"--cluster check {split_url(where).hosts.partition(',')[0]}"
    return error(
        "server",
        what if where in what else f"{where}: {what}",
        cause="clients cannot push to it, and its workers cannot run jobs",
        action=f"check {setting}: redis-cli {command}",
    )
