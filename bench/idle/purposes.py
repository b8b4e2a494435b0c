"""What the commands of a waiting worker are for, told by their keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HEARTBEAT, LEASE, WAITING = "heartbeat", "liveness and lease", "waiting for jobs"
LINE = re.compile(r"^[\d.]+ \[\d+ (?P<who>[^]]*)\] (?P<words>.*)$")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
# The scheduler takes or prolongs its lease in the script that looks what is due: with nothing due, for the lease alone.
SCHEDULE_LEASE = "offsider:schedule"
# What is due or waits is looked at for the jobs' sake, whatever other keys the same script has.
OF_JOBS = re.compile(r"queue:|(schedule|retry|paused)$")
OF_LEASES = re.compile(r"offsider:")
OF_HEARTBEATS = re.compile(r"(processes|process_cleanup)$|stat:|.*(-signals|:work|:workers)$|[^:]+:\d+:[0-9a-f]{12}$")


@dataclass(frozen=True)
class Purposes:
    """Commands a second by purpose, and which those for jobs were."""

    rates: Mapping[str, float]
    waiting: Mapping[str, int]


def counted(lines: Iterable[str], seconds: float) -> Purposes:
    """Of the lines that MONITOR printed within ``seconds``."""
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
    """PING and transactions are the heartbeat's; whatever is not recognised counts as waiting."""
    name, arguments = words[0].upper(), words[1:]
    if SCHEDULE_LEASE in arguments:
        return LEASE
    if any(OF_JOBS.match(word) for word in arguments):
        return WAITING
    if any(OF_LEASES.match(word) for word in arguments):
        return LEASE
    return (
        HEARTBEAT
        if name in {"PING", "MULTI", "EXEC"} or any(OF_HEARTBEATS.match(word) for word in arguments)
        else WAITING
    )
