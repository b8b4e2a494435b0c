"""Fork a worker, and prepare the forked process.

1. The supervisor creates a parent link and forks.
2. The child releases the supervisor's resources: signal handlers, the links of other workers, systemd's variables.
3. The child ties itself to the supervisor, pins itself to a core, reseeds its random numbers, and runs as any worker
   does, with its own identity and connections.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from offsider.cli.boot import Forked
from offsider.cli.failure import flush_output, give_up
from offsider.cli.signals import NAMES, SignalQueue
from offsider.core.errors import OffsiderError
from offsider.logs.setup import describe, logger
from offsider.worker.alive.keeper.link import KeeperProcess
from offsider.worker.alive.keeper.process_watch import Program
from offsider.worker.memory_limits import MemoryLimits, MemoryWatch

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config
    from offsider.worker.alive.keeper.channel import Channel


# ----------------------------------------------------------------------------------------------------
# The link between a worker and its supervisor: a socket pair, and a death signal from the kernel on Linux.
#
# 1. When the worker is ready, it writes one line: ``ready`` and the maximum duration of its stop in seconds.
# 2. When the supervisor dies, for any reason, the worker receives TERM: from the kernel on Linux, elsewhere from a
#    thread that detects the closed socket.
# 3. The supervisor's end survives an exec: the next supervisor continues to use it.

PR_SET_PDEATHSIG = 1


class ParentLink:
    """The supervisor's end.

    Attributes:
        stop_seconds: maximum duration of a stop that the worker reported; None until it is ready.
    """

    def __init__(self, end: socket.socket, *, stop_seconds: float | None = None) -> None:
        self._end = end
        self._end.setblocking(False)
        self._heard = b""
        self.stop_seconds = stop_seconds

    @property
    def ready(self) -> bool:
        """Whether the worker has reported that it is ready."""
        return self.stop_seconds is not None

    def fileno(self) -> int:
        return self._end.fileno()

    def listen(self) -> bool:
        """Read the worker's messages; return False after it has closed its end."""
        try:
            received = self._end.recv(4096)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self._heard += received
        word, _, seconds = self._heard.partition(b"\n")[0].partition(b" ")
        if word == b"ready" and b"\n" in self._heard:
            with suppress(ValueError):
                self.stop_seconds = float(seconds)
        return bool(received)

    def bequeath(self) -> int:
        """Return the file descriptor for the next program of this process."""
        self._end.set_inheritable(True)
        return self._end.fileno()

    @classmethod
    def inherit(cls, fd: int, stop_seconds: float | None) -> ParentLink:
        """Restore the end from a file descriptor of `bequeath`."""
        end = socket.socket(fileno=fd)
        end.set_inheritable(False)
        return cls(end, stop_seconds=stop_seconds)

    def close(self) -> None:
        self._end.close()


class WorkerEnd:
    """The worker's end."""

    def __init__(self, end: socket.socket, supervisor_pid: int) -> None:
        self._end = end
        self._supervisor_pid = supervisor_pid

    def tie(self) -> None:
        """From now on, receive TERM when the supervisor dies."""
        if not _set_death_signal():
            threading.Thread(target=self._watch, name="offsider-parent_link", daemon=True).start()
        if os.getppid() != self._supervisor_pid:  # it died before the request
            os.kill(os.getpid(), signal.SIGTERM)

    def say_ready(self, stop_seconds: float) -> None:
        """Report that the worker is ready, and that its stop takes at most `stop_seconds`."""
        with suppress(OSError):  # the supervisor has died, and a TERM will arrive
            self._end.sendall(b"ready %a\n" % stop_seconds)

    def _watch(self) -> None:
        while self._end.recv(1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        self._end.close()


def make_parent_link() -> tuple[ParentLink, WorkerEnd]:
    """Create both ends, in the supervisor before it forks."""
    supervisors, workers = socket.socketpair()
    return ParentLink(supervisors), WorkerEnd(workers, os.getpid())


def _set_death_signal() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # needed in workers on Linux only

    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


WorkAs: TypeAlias = "Callable[[WorkerOptions, KeeperProcess | None, Forked], int]"

# systemd accepts notifications of the supervisor only.
OF_THE_SUPERVISOR = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

# Check whether a process has exited, without reaping it.
UNREAPED = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "waitid") else 0


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

    def has_become_another(self) -> bool:
        """Whether a job replaced the worker with another program (`os.execv`) that is still running."""
        return self.program.replaced() and os.waitid(os.P_PID, self.pid, UNREAPED) is None

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
        pid = os.fork()
        if pid == 0:
            supervisors.close()
            self._live(slot, workers, siblings)
        workers.close()
        logger.info("worker %d is process %d", slot + 1, pid)
        return self.adopt(slot, pid, supervisors, time.monotonic())

    def adopt(self, slot: int, pid: int, parent_link: ParentLink, born_at: float) -> Child:
        """Return a running worker, of this program or of the previous program in this process."""
        watch = MemoryWatch(MemoryLimits.of(self._config.worker), born_at)
        return Child(slot, pid, parent_link, born_at, watch, Program(pid))

    def _live(self, slot: int, end: WorkerEnd, siblings: Iterable[Child]) -> NoReturn:
        try:
            code = self._work(slot, end, siblings)
        except OffsiderError as error:
            code = give_up(str(error), error, verbose=self._options.verbose)
        except KeyboardInterrupt:  # Ctrl-C reaches the whole process group, even before a handler is installed
            code = 0
        except BaseException:  # noqa: BLE001  # it must not reach the supervisor's code, which called this in the parent
            traceback.print_exc()
            code = 1
        flush_output()
        os._exit(code)

    def _work(self, slot: int, end: WorkerEnd, siblings: Iterable[Child]) -> int:
        self._signals.close()
        self._let_go()
        for sibling in siblings:
            sibling.let_go()
        end.tie()
        for name in OF_THE_SUPERVISOR:
            os.environ.pop(name, None)
        if self._config.worker.pin_cpus:
            pin(slot)
        options = self._with_queues(slot)
        if self._preloaded is not None:
            self._preloaded.random.seed()
        keeper = None
        if self._channel is not None:
            self._channel.only_send()
            keeper = KeeperProcess(self._channel)
        return self._work_as(options, keeper, Forked(self._preloaded, end.say_ready))

    def _with_queues(self, slot: int) -> WorkerOptions:
        """Return the options of one worker; with groups, the queues of its group."""
        groups = self._config.worker.groups
        if not groups:
            return self._options
        queues = tuple(groups[slot % len(groups)].split())
        if self._preloaded is not None:
            self._preloaded.worker.queues = queues
        return replace(self._options, queue=queues)


def pin(slot: int) -> None:
    """Pin this process to one of its allowed cores, by its slot."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[slot % len(cores)]})


# ----------------------------------------------------------------------------------------------------
# Replace the supervisor by a new program in the same process (exec), and keep its workers.
#
# 1. Block the handled signals, so that none is lost during the exec.
# 2. Store the workers and the file descriptors of their parent links in an environment variable.
# 3. Execute the same command line again. The process keeps its ID, and the workers are still its children.
# 4. The next supervisor removes the variable and adopts the workers.

VARIABLE = "OFFSIDER_SUCCESSION"
HELD = frozenset(signal.Signals[f"SIG{name}"] for name in (*NAMES, "CHLD") if hasattr(signal, f"SIG{name}"))


def exec_supervisor(children: Iterable[Child]) -> NoReturn:
    """Execute this program again; the next supervisor adopts ``children``.

    Raises:
        OSError: the program cannot be executed; the current supervisor can continue.
    """
    left = [
        {
            "place": child.slot,
            "pid": child.pid,
            "parent_link": child.parent_link.bequeath(),
            "stop_seconds": child.parent_link.stop_seconds,
            "born_at": child.born_at,
        }
        for child in children
    ]
    os.environ[VARIABLE] = json.dumps(left)
    flush_output()
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # this program itself
    finally:
        os.environ.pop(VARIABLE, None)
        unblock_signals()


def unblock_signals() -> None:
    """Unblock the signals that `exec_supervisor` blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def inherited(forker: Forker, environ: MutableMapping[str, str]) -> Iterator[Child]:
    """Yield the workers of the previous supervisor; none if this is the first one."""
    text = environ.pop(VARIABLE, "")
    if not text:
        return
    try:
        left = json.loads(text)
        for item in left:
            parent_link = ParentLink.inherit(item["parent_link"], item["stop_seconds"])
            yield forker.adopt(item["place"], item["pid"], parent_link, item["born_at"])
    except (ValueError, TypeError, KeyError, OSError) as error:
        logger.error("cannot adopt the workers of the previous supervisor: %s", describe(error))
