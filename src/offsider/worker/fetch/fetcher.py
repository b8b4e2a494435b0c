"""The interface between the worker and its fetchers."""

from __future__ import annotations

import importlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import ConfigurationError
from offsider.worker.controls import KnownControls

if TYPE_CHECKING:
    from offsider.config.capsule import Capsule
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.storage.working import Owner
    from offsider.worker.alive.ownership import Ownership
    from offsider.worker.disposition import Disposition
    from offsider.worker.unit_of_work import UnitOfWork


class Settled:
    """A unit of work with its disposition; reported once it is written or void.

    Attributes:
        lost: the job was requeued or settled elsewhere, so nothing was written.
        replies: of the disposition's effects; empty if they were lost.
    """

    __slots__ = ("disposition", "lost", "replies", "unit")

    def __init__(
        self, unit: UnitOfWork, disposition: Disposition, *, lost: bool = False, replies: Sequence[Any] = ()
    ) -> None:
        self.unit = unit
        self.disposition = disposition
        self.lost = lost
        self.replies = replies


def always() -> bool:
    return True


def ignore(_units: Sequence[UnitOfWork]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class FetcherContext:
    """The objects that a worker passes to a fetcher.

    Attributes:
        config: settings, clock, and error handlers.
        capsule: the queues to fetch from.
        redis: the capsule's pool: `concurrency` connections and three to spare.
        ownership: the identity to claim under.
        report: call it with units whose disposition was written or void; from any thread, without a lock.
        claims_allowed: call it before each claim; False while a job must run alone in this process.
        takes_next: call it in a thread that settles a job: returns whether the thread takes another one then.
        abandoned: set when the worker must end without waiting for the server.
        controls: the paused queues as this process knows them.
        count_claimed: call it with jobs that were taken from their queues.
    """

    config: Config
    capsule: Capsule
    redis: Redis
    ownership: Ownership
    report: Callable[[Sequence[Settled]], None]
    claims_allowed: Callable[[], bool] = always
    takes_next: Callable[[], bool] = always
    abandoned: threading.Event = field(default_factory=threading.Event)
    controls: KnownControls = field(default_factory=KnownControls)
    count_claimed: Callable[[Sequence[UnitOfWork]], None] = ignore

    @property
    def owner(self) -> Owner:
        """The current owner of the capsule's private lists."""
        return self.ownership.owner(self.capsule.name)


class Fetcher(ABC):
    """Takes the jobs of one capsule from their queues, and writes where they go after their runs.

    One object serves all threads of the capsule. To use your own class, set ``worker.fetcher`` to its path, or
    ``config.fetcher`` to the class; the worker calls it with a `FetcherContext`. The methods from `close` on have
    defaults for fetchers that store nothing between `retrieve` and `settle`.
    """

    @abstractmethod
    def retrieve(self) -> UnitOfWork | None:
        """Wait for the next job. None once the fetcher is quiet."""

    @abstractmethod
    def settle(self, unit: UnitOfWork, disposition: Disposition) -> None:
        """Write where the job goes, retry until the write succeeds, then report it.

        May return before the write. Set ``unit.settled`` with the write. Stop retrying once ``abandoned`` is set.
        `Moved` and `Lost` write nothing; report a `Lost` unit as lost. Run the effects of the disposition with the
        write, or after it (`storage.effects`).
        """

    @abstractmethod
    def give_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        """Requeue jobs, each as the given payload: jobs of a dead thread, or the last step of a stop.

        Raises:
            RedisFailure: some jobs may not have been requeued.
        """

    @abstractmethod
    def quiet(self) -> None:
        """Stop claiming jobs, and wake threads that wait in `retrieve`."""

    def close(self) -> None:  # noqa: B027 - a default
        """Close connections, after the last thread has left."""

    def wait_written(self, deadline: float) -> bool:  # noqa: ARG002
        """Wait until all dispositions are written and reported, or until ``deadline`` (monotonic seconds).

        Returns:
            True if all are. A stop calls it after the last job has ended.
        """
        return True

    def owns(self, unit: UnitOfWork) -> bool:  # noqa: ARG002
        """Return whether this process still owns the job. Called before a failed job's callbacks."""
        return True

    def audit(self) -> None:  # noqa: B027 - a default
        """Compare the fetcher's records with the server's. Called at each liveness beat."""

    def wake(self) -> None:  # noqa: B027 - a default
        """Look for jobs now: queues were added, or `claims_allowed` has changed."""

    def rebuild(self) -> None:  # noqa: B027 - a default
        """Close all connections, and wake waiting threads. The watchdog calls it."""

    @property
    def unstarted(self) -> int:
        """Number of jobs that were requeued before their start, because the worker is stopping."""
        return 0

    @property
    def claims_out(self) -> bool:
        """Whether a claim is under way that may still deliver a job."""
        return False

    @property
    def idle_count(self) -> int:
        """Number of threads that wait for a job; 0 exempts the fetcher from the watchdog."""
        return 0

    @property
    def last_activity_at(self) -> float:
        """Time of the last reply from the server, in monotonic seconds."""
        return time.monotonic()

    def described_wait(self) -> str:
        """Describe how idle threads wait, to complete "idle threads ..." in the log; empty for no line.

        Raises:
            RedisFailure: the server could not be asked.
        """
        return ""


_SHIPPED: Mapping[str, str] = {
    "reliable": "offsider.worker.fetch.reliable:ReliableFetcher",
    "basic": "offsider.worker.fetch.basic:BasicFetcher",
}


def make_fetcher(context: FetcherContext) -> Fetcher:
    """Create the fetcher of one capsule.

    Raises:
        ConfigurationError: the class that ``worker.fetcher`` names cannot be imported.
    """
    wanted = context.config.fetcher
    made_by = _find(_SHIPPED.get(wanted, wanted)) if isinstance(wanted, str) else wanted
    return cast(Fetcher, made_by(context))


def _find(path: str) -> type:
    """Import the class that the configuration names. The name must never be taken from a payload."""
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return cast(type, getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"worker.fetcher: {path!r} is neither reliable, basic nor a class that can be imported: {error}"
        raise ConfigurationError(msg) from error
