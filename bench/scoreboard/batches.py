"""Checks of batches whose workers were killed: each callback is pushed once, none before its condition holds.

1. The members and callbacks of `extended` note each run in the ledger, with its time.
2. A callback has the time of its push in its payload. It must not be before the last runs of the members it waits for:
   a run that was killed before its outcome was written does not count, and is repeated.
3. Each interruption is counted in the payload. So a callback that ran twice with the same count was pushed twice.
4. A job that is killed inside the block of a child leaves it open. The next run of the job deletes this child, whose
   members may have run, and died, before.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bench.scoreboard.ledger import Ledger
from bench.scoreboard.row import Report
from bench.servers import Server
from offsider import Config
from offsider.ext.batches import Batch, Status


class Run(NamedTuple):
    """A run of a member; ``how``: ran, failed or died."""

    bid: str
    jid: str
    attempt: int
    how: str
    at_ms: int


class Call(NamedTuple):
    """A run of a callback."""

    bid: str
    event: str
    pushed_ms: int
    interrupted_count: int
    at_ms: int


class Noted(NamedTuple):
    """All runs."""

    members: list[Run]
    callbacks: list[Call]

    @classmethod
    def of(cls, ledger: Ledger) -> Noted:
        return cls(
            [Run(bid, jid, int(attempt), how, int(at)) for bid, jid, attempt, how, at in ledger.notes("members")],
            [Call(bid, event, *map(int, numbers)) for bid, event, *numbers in ledger.notes("callbacks")],
        )


def statuses(config: Config, server: Server) -> dict[str, Status]:
    """Return the status of each batch on the server."""
    bids = [bid.decode() for bid in server.raw.zrange("batches", 0, -1)]
    return {bid: Batch(bid, config=config).status() for bid in bids}


def unfinished(found: Mapping[str, Status]) -> int:
    """Return the number of batches that have not ended as their jobs determine."""
    return sum(not _has_ended(status) for status in found.values())


def _has_ended(status: Status) -> bool:
    last = status.death_at if status.data["dies"] else status.success_at
    return status.complete and last is not None and not status.open_blocks


def judge(report: Report, noted: Noted, found: Mapping[str, Status], *, most_repeated: int) -> None:
    """Check the callbacks of all batches.

    Args:
        found: the batches, after all jobs have run.
        most_repeated: runs of callbacks that deaths of workers may have repeated.
    """
    whole = _Whole(noted, found)
    calls = whole.calls
    wanted = {(bid, event) for bid, status in found.items() for event in _events(status)}
    judged = {key for key in wanted | calls.keys() if key[0] not in whole.deleted}
    wrong = sum(_pushes(calls[key]) != (key in wanted) for key in judged)
    early = sum(call.pushed_ms < whole.earliest_ms(call.event, call.bid) for call in noted.callbacks)
    idle = sum(status.total != len({run.jid for run in whole.runs[bid]}) for bid, status in found.items())
    repeated = len(noted.callbacks) - len(calls)
    ended = len(found) - unfinished(found)
    report.count(f"batches that ended {len(found)}, got {ended}", 0 < ended == len(found))
    report.nothing("batches with members that did not run", idle)
    report.nothing("callbacks that were not pushed exactly once", wrong)
    report.nothing("callbacks pushed too early", early)
    report.at_most("repeated runs of callbacks", repeated, most_repeated)
    report.figure("batches", f"{len(found):,} with {len(calls):,} callbacks")


def _events(status: Status) -> tuple[str, str]:
    return ("complete", "death" if status.data["dies"] else "success")


def _pushes(calls: Iterable[Call]) -> int:
    """Return how many times a callback was pushed at least."""
    times = {call.pushed_ms for call in calls}
    counts = Counter(call.interrupted_count for call in calls)
    return max(len(times), *counts.values(), 0)


class _Whole:
    """The runs and callbacks by batch."""

    def __init__(self, noted: Noted, found: Mapping[str, Status]) -> None:
        self.runs: defaultdict[str, list[Run]] = defaultdict(list)
        self.calls: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
        self._children: defaultdict[str, list[str]] = defaultdict(list)
        for run in noted.members:
            self.runs[run.bid].append(run)
        for call in noted.callbacks:
            self.calls[call.bid, call.event].append(call)
        for bid, status in found.items():
            self._children[status.parent_bid].append(bid)
        #: Children that are deleted, so that their parents are unknown.
        self.deleted = self.runs.keys() - found.keys()

    def earliest_ms(self, event: str, bid: str) -> float:
        """Return when the condition of a callback held."""
        runs = self.runs[bid]
        if event == "complete":
            return max((run.at_ms for run in runs if run.attempt == 1), default=math.inf)
        if event == "success":
            ran = [run.at_ms for run in runs if run.how == "ran"]
            ran += [call.at_ms for child in self._children[bid] for call in self.calls.get((child, event), ())]
            return max(ran, default=math.inf)
        died = {run.jid: run.at_ms for run in runs if run.how == "died"}  # the last run of each
        below = [] if bid in self.deleted else [*self._children[bid], *self.deleted]
        below_ms = [self.earliest_ms(event, child) for child in below]
        return min([*died.values(), *below_ms], default=math.inf)
