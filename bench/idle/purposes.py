"""Classifies the commands of an idle worker by their keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HEARTBEAT, LEASE, WAITING = "heartbeat", "liveness and lease", "waiting for jobs"
LINE = re.compile(r"^[\d.]+ \[\d+ (?P<who>[^]]*)\] (?P<words>.*)$")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Commands on the signals of a process: heartbeat and reader of the controls.
OF_SIGNALS = re.compile(r".*-signals$")
# The scheduler's script renews the lease and reads due jobs; in an idle worker nothing is due, so it counts as a lease.
SCHEDULE_LEASE = "offsider:schedule"
# A command on these keys looks for jobs, even if its script uses other keys as well.
OF_JOBS = re.compile(r"queue:|(schedule|retry|paused)$")
OF_LEASES = re.compile(r"offsider:")
OF_HEARTBEATS = re.compile(r"(processes|process_cleanup)$|stat:|.*(-signals|:work|:workers)$|[^:]+:\d+:[0-9a-f]{12}$")


@dataclass(frozen=True)
class Purposes:
    """Commands per second by purpose, and the commands that waited for jobs."""

    rates: Mapping[str, float]
    waiting: Mapping[str, int]


def counted(lines: Iterable[str], seconds: float) -> Purposes:
    """Count the lines that MONITOR printed within ``seconds``."""
    purposes: Counter[str] = Counter({HEARTBEAT: 0, LEASE: 0, WAITING: 0})
    waiting: Counter[str] = Counter()
    for line in lines:
        found = LINE.match(line)
        if found is None or found["who"] == "lua":
            continue
        words = WORD.findall(found["words"])
        purpose = purpose_of(words)
        purposes[purpose] += 1
        if purpose == WAITING:
            waiting[" ".join([words[0], *(word for word in words[1:] if OF_JOBS.match(word))][:4])] += 1
    return Purposes({name: count / seconds for name, count in purposes.items()}, waiting)


def purpose_of(words: list[str]) -> str:
    """Return the purpose of a command: PING and transactions are heartbeats, unknown commands are waiting."""
    name, arguments = words[0].upper(), words[1:]
    if SCHEDULE_LEASE in arguments:
        return LEASE
    if any(OF_SIGNALS.match(word) for word in arguments):
        return HEARTBEAT
    if any(OF_JOBS.match(word) for word in arguments):
        return WAITING
    if any(OF_LEASES.match(word) for word in arguments):
        return LEASE
    return (
        HEARTBEAT
        if name in {"PING", "MULTI", "EXEC"} or any(OF_HEARTBEATS.match(word) for word in arguments)
        else WAITING
    )
