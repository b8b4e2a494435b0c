"""Forking a worker, and what a worker does before it is one.

1. The supervisor makes a tether and forks.
2. The child lets go of what is the supervisor's: its signals, the other workers' tethers, systemd.
3. It ties itself to the supervisor, goes to its core, draws fresh random numbers, and runs as any worker does: with an
   identity and connections of its own.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from offsider.cli.boot import Forked
from offsider.cli.failure import flush_output, give_up
from offsider.cli.supervisor.tether import Tether, WorkerEnd, make_tether
from offsider.core.errors import OffsiderError
from offsider.wiring.logs import logger
from offsider.worker.keeper.link import KeeperLink
from offsider.worker.memory_limits import MemoryLimits, MemoryWatch

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.cli.signals import SignalQueue
    from offsider.wiring.config import Config
    from offsider.worker.keeper.channel import Channel

WorkAs: TypeAlias = "Callable[[WorkerOptions, KeeperLink | None, Forked], int]"

# systemd listens to the supervisor alone.
OF_THE_SUPERVISOR = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass
class Child:
    """A worker as its supervisor sees it.

    Attributes:
        place: its number among the workers, from 0.
        pid: of its process.
        tether: the supervisor's end.
        born_at: by the monotonic clock.
        memory: since when it holds too much.
        kill_at: when it has to be gone, by the same clock; None while it may stay.
    """

    place: int
    pid: int
    tether: Tether
    born_at: float
    memory: MemoryWatch
    kill_at: float | None = None

    @property
    def ready(self) -> bool:
        return self.tether.ready

    def send(self, name: str) -> None:
        """Signal it. It cannot be another process: its number is free only after we have reaped it."""
        os.kill(self.pid, getattr(signal, f"SIG{name}"))


class Nursery:
    """Forks workers.

    Args:
        options: the command line.
        config: of the supervisor.
        channel: to the keeper; None without one.
        signals: the supervisor's, which a worker gives up.
        work_as: runs a worker in this process and answers its exit code, if it comes back at all.
        let_go: closes in the worker what else is the supervisor's alone.
    """

    def __init__(
        self,
        options: WorkerOptions,
        config: Config,
        channel: Channel | None,
        signals: SignalQueue,
        *,
        work_as: WorkAs,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._let_go = let_go
        self._work_as = work_as
        self._options = options
        self._config = config
        self._channel = channel
        self._signals = signals
        self._preloaded: Config | None = None

    def use(self, options: WorkerOptions, preloaded: Config | None) -> None:
        """Fork workers with these options; with ``preloaded`` they have the application of this process."""
        self._options = options
        self._config = preloaded or self._config
        self._preloaded = preloaded

    def fork(self, place: int, siblings: Iterable[Child]) -> Child:
        """A new worker for a place. Does not return in the worker."""
        supervisors, workers = make_tether()
        flush_output()
        pid = os.fork()
        if pid == 0:
            supervisors.close()
            self._live(place, workers, siblings)
        workers.close()
        logger.info("worker %d is process %d", place + 1, pid)
        return self.adopt(place, pid, supervisors, time.monotonic())

    def adopt(self, place: int, pid: int, tether: Tether, born_at: float) -> Child:
        """A worker that runs already, of this program or of the one that ran in this process before."""
        return Child(place, pid, tether, born_at, MemoryWatch(MemoryLimits.of(self._config.worker), born_at))

    def _live(self, place: int, end: WorkerEnd, siblings: Iterable[Child]) -> NoReturn:
        try:
            code = self._work(place, end, siblings)
        except OffsiderError as error:
            code = give_up(str(error), error, verbose=self._options.verbose)
        except KeyboardInterrupt:  # Ctrl-C reaches the whole group, also one that has no handler yet
            code = 0
        except BaseException:  # noqa: BLE001  # the supervisor's code above must not see it
            traceback.print_exc()
            code = 1
        flush_output()
        os._exit(code)

    def _work(self, place: int, end: WorkerEnd, siblings: Iterable[Child]) -> int:
        self._signals.close()
        self._let_go()
        for sibling in siblings:
            sibling.tether.close()
        end.tie()
        for name in OF_THE_SUPERVISOR:
            os.environ.pop(name, None)
        if self._config.worker.pin_cpus:
            pin(place)
        options = self._with_queues(place)
        if self._preloaded is not None:
            self._preloaded.random.seed()
        link = None
        if self._channel is not None:
            self._channel.only_send()
            link = KeeperLink(self._channel)
        return self._work_as(options, link, Forked(self._preloaded, end.say_ready))

    def _with_queues(self, place: int) -> WorkerOptions:
        """The command line of one worker: with the queues of its group, where there are groups."""
        groups = self._config.worker.groups
        if not groups:
            return self._options
        queues = tuple(groups[place % len(groups)].split())
        if self._preloaded is not None:
            self._preloaded.worker.queues = queues
        return replace(self._options, queue=queues)


def pin(place: int) -> None:
    """Bind this process to one of the cores that it may use, by its place."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[place % len(cores)]})
