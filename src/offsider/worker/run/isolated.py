"""Isolated jobs: each runs in a child process of its own, whose crash is the failure of that job alone.

1. The worker forks a fork server before it has threads. The server forks the children, and reports how they end. If
   the worker dies, the server kills them.
2. A child runs one job at a time, and waits for the next one then. It runs the function, the reloader, and the
   middleware with ``sets_context``. All else stays in the thread of the worker, which waits for the end.
3. During the run the child asks the worker for its state: whether it stops, or the job was cancelled.
4. SIGTERM has the child ask which error to raise: of a time limit, of a stop, or of an operator. So it also interrupts
   system calls. A child that still runs a second after its hard limit is killed.
5. SIGTTIN has the child write its stack into a pipe, also from C code: `faulthandler` does it.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import select
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from offsider.core.carried_error import CarriedError, frame_at, raised_again
from offsider.core.errors import InvalidJob, OffsiderError, ProcessCrashed, RunInterrupted, Shutdown
from offsider.core.wording import described
from offsider.storage.effects import Effect
from offsider.storage.steps import KEEP_STEPS
from offsider.worker.run.interrupt import line_of

if TYPE_CHECKING:
    from types import FrameType

    from offsider.core.outcome import Destination, Outcome
    from offsider.core.payload import JobPayload
    from offsider.runtime.context import JobContext
    from offsider.storage.attempts import LogLine
    from offsider.storage.scripts import Argument, Script

logger = logging.getLogger("offsider")

#: To the fork server: number of a child, and a signal for it; 0 to start it.
REQUEST = struct.Struct("!qi")
#: Time for a child whose link is closed to end by itself.
END_SECONDS = 1.0
#: Maximum time until a child has written its stack.
STACK_SECONDS = 0.1
#: The frames of a job in the text of `faulthandler`, the innermost first: those up to its caller, or 100, its limit.
_STACK = re.compile(
    rb'first\):\n((?:  File [^\n]*\n)*?(?=  File "[^\n]*/offsider/jobs/declared\.py")|(?:  File [^\n]*\n){100})'
)
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)\n')
_LENGTH = struct.Struct("!I")


class Link:
    """One end of the link between a worker and a child. Messages are pickled by this program for itself alone."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def send(self, message: bytes) -> None:
        self._end.sendall(_LENGTH.pack(len(message)) + message)

    def receive(self) -> Any:
        """Return the next message. Raises EOFError or OSError if the other end is closed."""
        data: bytes | bytearray = self._rest or self._received()
        if len(data) < _end_of(data):
            data = bytearray(data)  # bytes would be copied for each part
            while len(data) < _end_of(data):
                data += self._received()
        end = _end_of(data)
        self._rest = bytes(data[end:])
        return pickle.loads(data[_LENGTH.size : end])  # noqa: S301 - see the class

    def is_open(self) -> bool:
        """Return whether the other end is open, and has sent nothing."""
        return not self._poll.poll(0)

    def close(self) -> None:
        self._end.close()

    def _received(self) -> bytes:
        data = self._end.recv(65536)
        if not data:
            raise EOFError
        return data


def _end_of(data: bytes | bytearray) -> int:
    """Return the size of the message that data begins with, as far as it is known."""
    return _LENGTH.size + (_LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else 0)


class Begun(NamedTuple):
    """A run for a child: the parts of its `JobContext`."""

    capsule: str
    payload: JobPayload
    queue: str
    raw: bytes
    log: dict[str, object]
    owner: tuple[str, str] | None
    alone_in: str
    ends_at: float | None
    bound: Any
    has_control: bool


class JobEnded(NamedTuple):
    """The end of a run.

    Attributes:
        error: with its causes; empty if there is none.
        effects: script, keys, and the arguments for a job that is gone and for one that is kept.
        leaves: the child ends now.
    """

    error: list[CarriedError]
    result: Any
    log: Mapping[str, object]
    bound: Any
    spent: dict[str, float]
    log_lines: deque[LogLine] | None
    effects: Sequence[tuple[Script, Sequence[str], Any, Any]]
    cpu_seconds: float
    leaves: bool


class _Child:
    def __init__(self, number: int, link: Link, status: int, stack: int) -> None:
        self.number = number
        self.link = link
        self.status = status
        self.stack = stack

    def close(self) -> None:
        self.link.close()
        os.close(self.status)
        os.close(self.stack)


class IsolatedChildren:
    """The children of one worker, as many as it has run isolated jobs at the same time.

    Args:
        server: the link to the fork server.
        broken: called with the reason if the fork server has ended.
    """

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._number = 0
        self._closed = False
        self.broken: Callable[[str], None] = lambda _reason: None

    def begin(self, job: JobContext, capsule: str) -> ChildRun:
        """Return the run of a job, which a child begins with `ChildRun.result`."""
        return ChildRun(self, job, capsule)

    def take(self) -> _Child:
        """Return an idle child, or a new one."""
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.link.is_open():
                    return child
                child.close()
            self._number += 1
            number = self._number
        ours, theirs = socket.socketpair()
        (status, end), (stack, written) = os.pipe(), os.pipe()
        with theirs:
            try:
                self._ask(number, 0, theirs.fileno(), end, written)
            finally:
                os.close(end)
                os.close(written)
        return _Child(number, Link(ours), status, stack)

    def give_back(self, child: _Child) -> None:
        with self._lock:
            self._idle.append(child)

    def signal(self, child: _Child, number: int) -> None:
        """Send a signal to a child, unless it has ended."""
        with suppress(Shutdown):
            self._ask(child.number, number)

    def stack(self, child: _Child) -> list[FrameType]:
        """Return the frames of a child's job, the outermost first; none if the child does not answer or has no job."""
        while _is_readable(child.stack, 0) and os.read(child.stack, 65536):
            pass  # the rest of an earlier one
        self.signal(child, signal.SIGTTIN)
        stack = b""
        while _is_readable(child.stack, STACK_SECONDS) and (data := os.read(child.stack, 65536)):
            stack += data
            if of_job := _STACK.search(stack):
                lines: list[tuple[str, str, str]] = _FRAME.findall(of_job[1].decode(errors="replace"))
                return [frame_at(file, "", name, int(line)) for file, line, name in reversed(lines)]
        return []

    def end_of(self, child: _Child) -> BaseException:
        """Return the error for a run whose child has closed its link."""
        if not _is_readable(child.status, END_SECONDS):
            self.signal(child, signal.SIGKILL)
        status = os.read(child.status, 64)
        child.close()
        if self._closed or not status:
            return Shutdown() if self._closed else self._lost()
        how = described(int(status)) if status.isdigit() else status.decode()
        hint = ", perhaps because the system had no more memory" if how.endswith("SIGKILL") else ""
        return ProcessCrashed(f"the process of the job {how}{hint}")

    def close(self) -> None:
        """Kill all children, and end the fork server."""
        self._closed = True
        self._server.close()

    def _lost(self) -> RunInterrupted:
        reason = "the fork server of isolated jobs has ended"
        logger.critical("%s: this worker exits for a restart", reason)
        self.broken(reason)
        return RunInterrupted(reason)

    def _ask(self, number: int, what: int, *descriptors: int) -> None:
        try:
            with self._lock:
                socket.send_fds(self._server, [REQUEST.pack(number, what)], descriptors)
        except OSError as error:
            raise Shutdown if self._closed else self._lost() from error


class ChildRun:
    """One run in a child, for `JobContext.reach`: all errors are raised in the child.

    Attributes:
        cpu_seconds: CPU time of the child in this run.
    """

    def __init__(self, children: IsolatedChildren, job: JobContext, capsule: str) -> None:
        self._children = children
        self._job = job
        self._capsule = capsule
        self._child: _Child | None = None
        self._lock = threading.Lock()
        self._aimed: tuple[type[BaseException], str, Callable[[], None]] | None = None
        self._killed_by: BaseException | None = None
        self.cpu_seconds = 0.0

    def result(self) -> Any:
        """Run the job, and return its result or raise its error."""
        job = self._job
        owner = None if job.owner is None else (job.owner.identity, job.owner.capsule)
        begun = (self._capsule, job.payload, job.queue, job.raw, job.log, owner, job.alone_in)
        message = pickle.dumps((*begun, job.ends_at, job.bound, job.control is not None))
        with self._lock:
            self._child = child = self._children.take()
        try:
            try:
                child.link.send(message)
                ended = self._attended(child.link)
            finally:
                with self._lock:
                    self._child = None
        except (OSError, EOFError):
            error = self._children.end_of(child)
            if self._aimed is not None and str(error).endswith("SIGTERM"):  # the job has removed our handler
                error = self._aimed[0](self._aimed[1])
            raise (error if self._killed_by is None else self._killed_by) from None
        except Exception as error:  # pickle calls code of the application
            child.close()
            raise InvalidJob(f"{job.name} is isolated, and its worker cannot load what it returned: {error}") from error
        if ended.leaves or self._killed_by is not None:
            child.close()
        else:
            self._children.give_back(child)
        return self._take(ended)

    def interrupt(self) -> None:
        """Interrupt the run because of a stop."""
        self.aim(Shutdown, "", lambda: None)

    def aim(self, kind: type[BaseException], message: str, landed: Callable[[], None]) -> bool:
        """Raise ``kind(message)`` in the child, and call ``landed`` then; False if the run has not begun or ended."""
        with self._lock:
            if self._child is None:
                return False
            self._aimed = (kind, message, landed)
            self._children.signal(self._child, signal.SIGTERM)
            return True

    def kill(self, error: OffsiderError) -> bool:
        """Kill the child, so that the run fails with an error; False if it has ended."""
        with self._lock:
            if self._child is None:
                return False
            self._killed_by = error
            self._children.signal(self._child, signal.SIGKILL)
            return True

    def place(self) -> str:
        frames = self.frames()
        return line_of(frames[-1]) if frames else ""

    def frames(self) -> Sequence[FrameType]:
        with self._lock:
            return () if self._child is None else self._children.stack(self._child)

    def _attended(self, link: Link) -> JobEnded:
        """Answer the child until it has ended the run."""
        job = self._job
        while True:
            match link.receive():
                case ("stopping" | "cancelled" as question,):
                    link.send(pickle.dumps(getattr(job, question)))
                case ("error",):
                    aimed, self._aimed = self._aimed, None
                    link.send(pickle.dumps(aimed and aimed[:2]))
                    if aimed is not None:
                        aimed[2]()
                case "progress", done, total, message:
                    job.progress(done, total, message)
                case ended:
                    return JobEnded(*cast("Sequence[Any]", ended))

    def _take(self, ended: JobEnded) -> Any:
        job = self._job
        job.log.clear()
        job.log.update(ended.log)
        job.bound = ended.bound
        job.add_measured(ended.spent)
        if ended.log_lines:
            job.log_lines = deque((*(job.log_lines or ()), *ended.log_lines), ended.log_lines.maxlen)
        job.effects += tuple(self._effect(*effect) for effect in ended.effects)
        self.cpu_seconds = ended.cpu_seconds
        if ended.error:
            raise raised_again(ended.error)
        return ended.result

    def _effect(
        self,
        script: Script,
        keys: Sequence[str],
        gone: Sequence[Argument] | None,
        kept: Sequence[Argument] | None,
    ) -> Effect:
        def arguments(_: Outcome, goes: Destination) -> Sequence[Argument] | None:
            if goes == "gone" or kept is None or script is not KEEP_STEPS:
                return gone if goes == "gone" else kept
            # The worker alone knows when the job runs again.
            return [round(cast("int", kept[0]) + self._job.again_in_seconds), *kept[1:]]

        return Effect(script, keys, arguments)


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Return whether a pipe has data or has been closed, or wait for that."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
