"""Run the checks, one after another, without changing anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.errors import OffsiderError, RedisFailure, RedisUnavailable
from offsider.inspector.all_servers import query_all, split
from offsider.inspector.finding import Finding, Severity, error, warn
from offsider.inspector.findings.classes import find_classes
from offsider.inspector.findings.data_checks import CHECKS, DOCTOR_CHECKS, check_spool
from offsider.inspector.findings.jobs import find_controls, find_crashes, find_held, find_limited, find_stranded
from offsider.inspector.findings.look import Look
from offsider.inspector.findings.queues import find_late, find_stopped
from offsider.inspector.findings.server_checks import SERVER_CHECKS, check_scripts
from offsider.storage.cluster import split_url

#: Readings of the server's clock by the doctor; the fastest one is used.
READINGS = 10

#: Maximum number of findings of a check that are stored and posted: the queues of all tenants may be at fault at once.
MAX_ALIKE = 50

#: Faults of a server by which pushes fail now.
_STOPS_PUSHES = ("memory", "saves", "clients", "replicas")

Input = TypeVar("Input")


def check_server(look: Look) -> Iterator[Finding]:
    """Run the checks of the server itself. A fault that stops pushes harms as many jobs as run."""
    for check in SERVER_CHECKS:
        for finding in check(look.info):
            is_serious = finding.severity is Severity.ERROR and finding.name in _STOPS_PUSHES
            yield replace(finding, harm=look.runs_per_minute if is_serious else 0.0)


DETECTORS: tuple[Callable[[Look], Iterable[Finding]], ...] = (
    find_classes,
    find_crashes,
    find_stopped,
    find_late,
    find_held,
    find_controls,
    find_limited,
    find_stranded,
    *CHECKS,
)


def find(config: Config | Installation | None = None, known: Mapping[str, Finding] | None = None) -> list[Finding]:
    """Look at a server once and return the findings, most harm first, of equal harm the oldest first.

    Args:
        config: the server and its settings; default: the configuration of this process.
        known: the findings of the last call by id: a class is compared with the time before its finding began.

    Raises:
        RedisFailure: the server is unreachable.
    """
    server = Installation.of(config)
    look = Look(server, known or {})
    return by_harm([*check_server(look), *_few(_find(look), look.known)])


def _find(look: Look) -> Iterator[Finding]:
    for detector in DETECTORS:
        yield from _run(detector, look)
    for finder in look.server.config.findings:
        yield from _run(finder, look.server)


def _few(findings: Iterable[Finding], known: Mapping[str, Finding]) -> Iterator[Finding]:
    """Yield `MAX_ALIKE` findings of each check, and one for its others; those that are known stay until they end."""
    alike: dict[str, list[Finding]] = {}
    for finding in sorted(by_harm(findings), key=lambda each: each.id not in known):
        alike.setdefault(finding.name, []).append(finding)
    for found in alike.values():
        yield from found[:MAX_ALIKE]
        if others := found[MAX_ALIKE:]:
            what = f"{others[0].name}: {len(others):,} more, such as {', '.join(each.subject for each in others[:3])}"
            more = replace(others[0], what=what, subject="", numbers={"findings": len(others)}, since=None, buttons=())
            yield replace(more, actions=("see all of them: offsider doctor",), details=())


def by_harm(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by harm, then by age; muted ones are the last."""
    return sorted(
        findings,
        key=lambda each: (
            each.muted_until is not None,
            -each.harm,
            -each.severity,
            math.inf if each.since is None else each.since,
            each.id,
        ),
    )


def examine(config: Config | Installation | None = None) -> list[Finding]:
    """Run all checks of a server and return the findings, worst first. An unreachable server is a finding, too.

    Takes a few seconds at most, regardless of the data size: the scan of all keys is limited.

    Args:
        config: the server and its settings; default: the configuration of this process.
    """
    server = Installation.of(config)
    look, findings = Look(server, readings=READINGS), list[Finding]()
    try:
        findings += [finding for check in SERVER_CHECKS for finding in check(look.info)]
        findings += check_scripts(server.redis)
        _ = look.clock
    except OffsiderError as failure:
        return _worst_first([*findings, _unreachable(server, failure), *check_spool(look)])
    findings += _find(look)
    for check in DOCTOR_CHECKS:
        findings += _run(check, look)
    for check_of_extension in server.config.doctor_checks:
        findings += _run(check_of_extension, server)
    return _worst_first(findings)


def examine_all(config: Config | Installation | None = None) -> list[Finding]:
    """Examine all servers of the configuration in parallel. Equal findings are merged into one.

    Args:
        config: the configuration whose servers to examine; default: the configuration of this process.
    """
    start = Installation.of(config)
    answers, _ = split(query_all(start, examine))
    return _worst_first(merged(answers, list(start.config.servers)))


def merged(answers: Mapping[str, Iterable[Finding]], every: Sequence[str]) -> list[Finding]:
    """Return the findings of several servers. Equal ones are merged into one, which names its servers, unless all.

    Args:
        answers: the findings by server.
        every: names of all servers of the configuration.
    """
    found: dict[Finding, list[str]] = {}
    for server, findings in answers.items():
        for finding in findings:
            found.setdefault(finding, []).append(server)
    return [
        finding if servers == every else replace(finding, servers=tuple(servers)) for finding, servers in found.items()
    ]


def count_checks(config: Config) -> int:
    """Return the number of checks of each server."""
    own = (*SERVER_CHECKS, check_scripts, *DETECTORS, *DOCTOR_CHECKS)
    return len((*own, *config.findings, *config.doctor_checks))


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity, reverse=True)


def _run(check: Callable[[Input], Iterable[Finding]], argument: Input) -> list[Finding]:
    """Run a check; if the server refuses a command, return that as a finding, so that other checks still run."""
    try:
        return list(check(argument))
    except RedisFailure as failure:
        cause = "the check needs this server"
        action = "start that server, and run offsider doctor again"
        if not isinstance(failure, RedisUnavailable):
            cause = "a key has the wrong type, or the ACL does not allow this user to read it"
            action = "see the message; the ACL line is in docs/deployment.md"
        name = check.__name__.removeprefix("check_").removeprefix("find_")
        return [warn(name, f"the check failed: {failure}", cause=cause, actions=(action,))]


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
        actions=(f"check {setting}: redis-cli {command}",),
        kind="server",
    )
