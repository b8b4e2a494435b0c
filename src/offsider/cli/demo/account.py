"""Adding up: the ledger on one side, what is still stored on the other.

For every job that the ledger knows, exactly one of these holds, in this order: it ran to its end, it lies in
the dead set, it is stored elsewhere (left), it is lost. Redis' own counters play no part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from offsider.cli.demo.ledger import Line

ENDS = ("done", "failed", "postponed", "cut-short")


@dataclass(frozen=True, slots=True)
class Account:
    """What became of all jobs. Jobs = processed + dead + left + lost; failed and retried count runs.

    Attributes:
        twice: jobs that ran to their end more than once.
    """

    processed: int
    failed: int
    retried: int
    dead: int
    left: int
    lost: int
    twice: int

    @property
    def jobs(self) -> int:
        return self.processed + self.dead + self.left + self.lost

    def __str__(self) -> str:
        return (
            f"processed {self.processed} failed {self.failed} retried {self.retried} "
            f"dead {self.dead} left {self.left} lost {self.lost}"
        )


@dataclass
class Tally:
    """What the ledger says so far.

    Attributes:
        ended_again: jobs that began in a process that never told of their end, and ended in another one.
    """

    known: set[str] = field(default_factory=set[str])
    done: set[str] = field(default_factory=set[str])
    failed: int = 0
    retried: int = 0
    postponed: int = 0
    twice: int = 0
    ended_again: set[str] = field(default_factory=set[str])
    _running: dict[str, set[int]] = field(default_factory=dict[str, set[int]])

    def add(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._add(line)

    def _add(self, line: Line) -> None:
        self.known.add(line.key)
        self._follow(line)
        self.retried += line.attempt > 1 and line.word in {"done", "failed"}
        if line.word == "done":
            self.twice += line.key in self.done
            self.done.add(line.key)
        self.failed += line.word == "failed"
        self.postponed += line.word == "postponed"

    def _follow(self, line: Line) -> None:
        if line.word == "began":
            self._running.setdefault(line.key, set()).add(line.pid)
        elif line.word in ENDS and line.key in self._running:
            pids = self._running[line.key]
            pids.discard(line.pid)
            if pids:  # it began in another process too, which said nothing of its end
                self.ended_again.add(line.key)
            else:
                del self._running[line.key]

    def running_in(self, pid: int) -> set[str]:
        """The jobs whose run began in a process and did not end there."""
        return {key for key, pids in self._running.items() if pid in pids}

    def settle(self, *, dead: Collection[str], stored: Collection[str]) -> Account:
        """The account, given what lies in the dead set and what lies anywhere else."""
        buried = set(dead) - self.done
        left = set(stored) - self.done - buried
        return Account(
            processed=len(self.done),
            failed=self.failed,
            retried=self.retried,
            dead=len(buried),
            left=len(left),
            lost=len(self.known - self.done - buried - left),
            twice=self.twice,
        )
