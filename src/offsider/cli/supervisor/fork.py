"""Fork a worker, and prepare the forked process.

1. The supervisor creates a parent link and forks.
2. The child replaces the supervisor's signal handlers, and releases its other resources: the links of other workers,
   systemd's variables.
3. The child ties itself to the supervisor, pins itself to a core, reseeds its random numbers, and runs as any worker
   does, with its own identity and connections.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from offsider.cli import boot_signals
from offsider.cli.boot import Forked
from offsider.cli.failure import flush_output, give_up
from offsider.cli.signals import SignalQueue
from offsider.cli.start_folder import leave_removed_folder
from offsider.cli.supervisor.parent_link import ParentLink, WorkerEnd, make_parent_link
from offsider.core.errors import OffsiderError
from offsider.logs.setup import logger
from offsider.worker.alive.keeper.link import KeeperProcess
from offsider.worker.alive.keeper.process_watch import Program
from offsider.worker.memory_limits import MemoryWatch

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config
    from offsider.worker.alive.keeper.channel import Channel

WorkAs: TypeAlias = "Callable[[WorkerOptions, KeeperProcess | None, Forked], int]"

# systemd accepts notifications of the supervisor only.
OF_THE_SUPERVISOR = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass
class Child:
    """The supervisor's record of one worker.

    Attributes:
        slot: index among the workers, from 0.
        pid: ID of its process.
        parent_link: the supervisor's end.
        born_at: start time by the monotonic clock.
        memory: watches how long it has exceeded a memory limit.
        program: detects that the process executed another program.
        kill_at: when to kill it, by the same clock; None without a deadline.
    """

    slot: int
    pid: int
    parent_link: ParentLink
    born_at: float
    memory: MemoryWatch
    program: Program
    kill_at: float | None = None

    @property
    def ready(self) -> bool:
        return self.parent_link.ready

    def send(self, name: str) -> None:
        """Send a signal. The pid cannot belong to another process before we have reaped this one."""
        os.kill(self.pid, getattr(signal, f"SIG{name}"))

    def let_go(self) -> None:
        """Close the descriptors connected to this process."""
        self.parent_link.close()
        self.program.close()


class Forker:
    """Forks workers.

    Args:
        options: the command line.
        config: the configuration of the supervisor.
        channel: channel to the keeper; None without a keeper.
        signals: the supervisor's signal queue, which a worker closes.
        work_as: runs a worker in this process and, if it returns at all, returns the exit code.
        let_go: closes, in the worker, other resources that only the supervisor uses.
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
        """Fork workers with these options; with ``preloaded`` they use the application loaded in this process."""
        self._options = options
        self._config = preloaded or self._config
        self._preloaded = preloaded

    def fork(self, slot: int, siblings: Iterable[Child]) -> Child:
        """Fork a worker for a slot. Does not return in the worker."""
        supervisors, workers = make_parent_link()
        flush_output()
        # Until the child has a handler that ends it: Python's own handler of INT would raise in a hook of the fork.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        try:
            pid = os.fork()
            if pid == 0:
                self._signals.close()
                boot_signals.install()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if pid == 0:
            supervisors.close()
            self._live(workers, siblings)
        workers.close()
        logger.info("worker %d is process %d", slot + 1, pid)
        return self.adopt(slot, pid, supervisors, time.monotonic())

    def adopt(self, slot: int, pid: int, parent_link: ParentLink, born_at: float) -> Child:
        """Return a running worker, of this program or of the previous program in this process."""
        watch = MemoryWatch(self._config.worker.memory_max_mb)
        return Child(slot, pid, parent_link, born_at, watch, Program(pid))

    def _live(self, end: WorkerEnd, siblings: Iterable[Child]) -> NoReturn:
        try:
            code = self._work(end, siblings)
        except OffsiderError as error:
            code = give_up(str(error), error, verbose=self._options.verbose)
        except KeyboardInterrupt:  # a second Ctrl-C, while the boot ends after the first one
            code = 0
        except BaseException:  # noqa: BLE001  # it must not reach the supervisor's code, which called this in the parent
            traceback.print_exc()
            code = 1
        flush_output()
        os._exit(code)

    def _work(self, end: WorkerEnd, siblings: Iterable[Child]) -> int:
        leave_removed_folder()
        self._let_go()
        for sibling in siblings:
            sibling.let_go()
        end.tie()
        for name in OF_THE_SUPERVISOR:
            os.environ.pop(name, None)
        if self._preloaded is not None:
            self._preloaded.random.seed()
        keeper = None
        if self._channel is not None:
            self._channel.only_send()
            keeper = KeeperProcess(self._channel)
        return self._work_as(self._options, keeper, Forked(self._preloaded, end.say_ready))
