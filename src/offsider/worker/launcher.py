"""Starts and stops a worker.

Start:

1. Freeze the configuration and check every declared job against it.
2. Call ``startup`` handlers; an error in one aborts the start.
3. Register the owner: the server acknowledges the first beat before the first claim.
4. Start the services (liveness, sweeper, watchdog, heartbeat, discovery, scheduler, controls, slots, those of
   extensions), then the managers with their processors.

Stop (rule 12):

1. Quiet: fetch no more jobs, stop the scheduler. The process does not exit by itself.
2. Stop: quiet, then wait for running jobs, all capsules under one deadline.
3. Interrupt the running jobs, and give each thread a little time (2.5 s) to settle its own outcome.
4. Requeue the remaining jobs, in one last step.
5. Flush the counters, leave the registries, call ``exit`` handlers. The caller then ends the process: threads
   that could not be interrupted still run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from offsider.config.app_version import app_version
from offsider.core.errors import RedisFailure
from offsider.jobs import registry
from offsider.runtime.forks import worker_started, worker_stopped
from offsider.storage import events, owners
from offsider.worker.assembly import Assembly, Pools
from offsider.worker.parts import Lifecycle
from offsider.worker.run.interrupt import OBSTACLE
from offsider.worker.run.library_times import measure_loaded
from offsider.worker.run_account import Ended
from offsider.worker.served_queues import log_unserved

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.service import Service
    from offsider.worker.alive.parent_link import ParentLink
    from offsider.worker.manager import Manager
    from offsider.worker.run.isolated import IsolatedChildren
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

SETTLE_SECONDS = 2.5
# The same for a stop at once: a job in `time.sleep` or in C code is requeued after this time.
HURRIED_SETTLE_SECONDS = 0.5
# Maximum delay of a stop at once.
HURRY_SECONDS = 0.05
SERVICES_END_SECONDS = 0.2
#: Maximum time from the deadline to the return of `stop`, even if Redis is unavailable; documented is timeout + 4 s.
LAST_SECONDS = 3.3
# The same if the server does not answer within the first time: nothing can be settled or requeued; documented is
# timeout + 2 s.
ANSWER_SECONDS = 0.5
LAST_WITHOUT_SERVER_SECONDS = 1.2
# Between two attempts to record a stop.
NOTE_PAUSE_SECONDS = 0.5
#: Minimum time for event handlers of the stop, even after the deadline.
HANDLER_SECONDS = 0.1


class Launcher:
    """One worker, started once and stopped once.

    Args:
        config: frozen by `start`.
        embedded: the worker runs inside another program, and ignores signals from Redis.
        parent: the link to the parent process, if there is one.
        on_signal: handles ``TSTP``, ``TERM`` and ``TTIN`` that were sent through Redis; by default the launcher does.
        children: run isolated jobs.
    """

    def __init__(
        self,
        config: Config,
        *,
        embedded: bool = False,
        parent: ParentLink | None = None,
        on_signal: Callable[[str], None] | None = None,
        children: IsolatedChildren | None = None,
    ) -> None:
        self.config = config
        self.embedded = embedded
        self.lifecycle = Lifecycle(on_signal if on_signal is not None else self._act_on)
        self._parent = parent
        self._children = children
        self._lock = threading.Lock()
        self._stop_begun = False
        self._stopped = threading.Event()
        self._prepared = False
        self._registered = False
        self._counted = False
        self._pools: Pools | None = None
        self._parts: Assembly | None = None

    @property
    def parts(self) -> Assembly:
        """The parts of a worker whose start has begun."""
        if self._parts is None:
            msg = "the worker has not been started"
            raise RuntimeError(msg)
        return self._parts

    @property
    def _managers(self) -> Sequence[Manager]:
        return () if self._parts is None else self._parts.managers

    @property
    def _ended(self) -> Ended:
        return Ended() if self._parts is None else self._parts.work_state.runs.ended

    @property
    def identity(self) -> str:
        """``host:pid:nonce``; changes after this process was declared dead while it was silent."""
        return self.parts.ownership.identity

    @property
    def _release(self) -> dict[str, str]:
        """The field of events about this process."""
        return {"release": app_version(self.config.client.app_version)}

    @property
    def work_state(self) -> WorkState:
        """The running jobs, and the counters of this process."""
        return self.parts.work_state

    def prepare(self) -> None:
        """Freeze and check the configuration, and call ``startup`` handlers.

        Raises:
            ConfigurationError, InvalidOptions: the configuration or a declared job is invalid.
        """
        self._prepared = True
        config = self.config
        config.freeze()
        registry.check_all(config)
        measure_loaded()
        config.events.emit("startup", once=True)

    def register(self) -> None:
        """Register this process as an owner. No thread runs yet, so that the process may end at any point.

        Raises:
            RedisFailure: the first beat failed.
        """
        config = self.config
        worker_started(owns_process=not self.embedded)
        self._counted = True
        self._pools = Pools(config)
        # Before the registration: factories of extensions may raise, and must not leave a registered owner.
        self._parts = parts = Assembly(
            config, self._pools, self.lifecycle, self._parent, self._children, embedded=self.embedded
        )
        parts.ownership.register()
        self._registered = True

    def start(self) -> None:
        """Start the worker; first do what was not done of `prepare` and `register`. Raises what they raise."""
        if not self._prepared:
            self.prepare()
        if not self._registered:
            self.register()
        config, parts = self.config, self.parts
        events.note(parts.redis, events.STARTED, self.identity, **self._release)  # before a job can end the process
        for service in parts.services:
            service.start()
        for manager in parts.managers:
            manager.start()
        # Asked after the first claims: an idle server takes up to 100 ms to end a pop that has timed out.
        waits = parts.ways_to_wait()
        logger.info("running %s as %s", " and ".join(map(repr, config.capsules.values())), self.identity)
        for name, way in waits.items():
            logger.info("capsule %s: idle threads %s", name, way)
        log_unserved(config)
        if OBSTACLE:
            logger.info("time limits and shutdown can interrupt async jobs only, not jobs in threads: %s", OBSTACLE)

    def quiet(self) -> None:
        """Stop claiming jobs. Running jobs continue, and the process does not exit. May be called twice."""
        if self._take_no_more() and self._registered:
            note = partial(events.note, self.parts.redis, events.QUIET, self.identity, **self._release)
            start_thread(note, "offsider-quiet")  # a signal must not wait for Redis
        self.config.events.emit("quiet", once=True)

    def _take_no_more(self) -> bool:
        """Stop claiming jobs; False if it was done before."""
        with self._lock:
            if self.lifecycle.quieted:
                return False
            self.lifecycle.quieted = True
        for manager in self._managers:
            manager.quiet()
        logger.info("quiet: this worker claims no new jobs")  # log it after the fact: readers rely on it
        if self._parts is not None:
            self._parts.tell_parent()
            self._parts.scheduler.stop()
        return True

    def stop(self) -> None:
        """Stop the worker, with a deadline ``worker.timeout_seconds`` from now, and return when it has stopped.

        A second call waits for the first.
        """
        with self._lock:
            first = not self._stop_begun
            self._stop_begun = True
        if not first:
            self._stopped.wait()
            return
        before = self._ended
        deadline = time.monotonic() + self.config.worker.timeout_seconds
        self._take_no_more()
        # Not before: a job that reschedules itself because of the stop would start here again.
        self.lifecycle.stopping = True
        self._note_stop()
        if self._parts is not None:
            self._parts.tell_parent()
        self._announce("quiet", deadline)
        self._announce("shutdown", deadline)
        last = self._wind_down(deadline)
        # Redis may be unavailable, so the last commands have a time limit.
        start_thread(self._farewell, "offsider-farewell", max(0.5, last - time.monotonic()))
        self._announce("exit", last)
        ended = self._ended.plus(requeued=sum(manager.unstarted for manager in self._managers))
        logger.info("stopped: %s", ended.since(before))
        if self._counted:
            worker_stopped()
        self._stopped.set()

    def hurry(self) -> None:
        """Give running jobs no more time in the current or next stop: they are interrupted and requeued."""
        self.lifecycle.hurried = True

    def _note_stop(self) -> threading.Event:
        """Record the stop: if this process is killed now, its jobs get no strike.

        Returns:
            An event that is set once the server has answered.
        """
        noted = threading.Event()

        stopper = threading.get_ident()

        def note() -> None:
            while self._registered and not self._stopped.is_set():
                with suppress(RedisFailure):
                    owners.note_stop(self.parts.redis, self.identity)
                    break
                if threading.get_ident() == stopper:
                    return
                time.sleep(NOTE_PAUSE_SECONDS)
            noted.set()

        # In its own thread: the stop must not wait for Redis.
        start_thread(note, "offsider-stopping")
        return noted

    def _announce(self, event: str, until: float) -> None:
        """Call the handlers of an event with a time limit: a handler that hangs must not prevent requeueing."""
        emit = partial(self.config.events.emit, event, once=True)
        if not start_thread(emit, f"offsider-{event}", max(HANDLER_SECONDS, until - time.monotonic())):
            logger.warning("handlers of %s are still running; the stop continues without waiting for them", event)

    def _wind_down(self, deadline: float) -> float:
        """End the running jobs, and return the time by which the process exits."""
        for manager in self._managers:
            # In short waits, because `hurry` may end them.
            while not self.lifecycle.hurried and time.monotonic() < deadline:
                if manager.wait(min(deadline, time.monotonic() + HURRY_SECONDS)):
                    break
        still = [manager for manager in self._managers if not manager.wait(0)]
        if still and not self.lifecycle.hurried:
            logger.info("the deadline has passed: interrupting the jobs that still run")
        for manager in still:
            manager.interrupt()
        interrupted_at = time.monotonic()
        answers = self._note_stop().wait(ANSWER_SECONDS)
        settled_by = interrupted_at + (
            SETTLE_SECONDS if answers and not self.lifecycle.hurried else HURRIED_SETTLE_SECONDS
        )
        for manager in still:
            manager.wait(settled_by)
        return deadline + (LAST_SECONDS if answers else LAST_WITHOUT_SERVER_SECONDS)

    def _farewell(self) -> None:
        if self._children is not None:
            self._children.close()  # before their jobs can run elsewhere
        for manager in self._managers:
            manager.give_back()
        if self._parts is not None:
            end(self._parts.services)
            if self._registered:
                self._leave(self._parts)
        for manager in self._managers:
            manager.close()
        if self._pools is not None:
            self._pools.close()

    def _leave(self, parts: Assembly) -> None:
        ended = partial(events.note, parts.redis, events.ENDED, self.identity, **self._release)
        # The registration first: if the time is over before the end, no sweeper has to find empty lists.
        for last in (
            parts.ownership.leave,
            parts.heartbeat.runs.write,
            parts.failures.flush,
            parts.heartbeat.leave,
            ended,
        ):
            try:
                last()
            except RedisFailure as error:
                self.config.handle_error(error, {"context": "unregistering this process"})

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until `stop` has finished; True if it has."""
        return self._stopped.wait(timeout_seconds)

    def _act_on(self, signal: str) -> None:
        # A stop waits for the thread that reads the controls and calls this, so run the action in a new thread.
        action = {"TSTP": self.quiet, "TERM": self.stop, "INT": self.stop}.get(signal)
        if action is not None:
            threading.Thread(target=action, name=f"offsider-{signal}", daemon=True).start()
        else:
            logger.warning("ignoring the signal %s: a worker does not handle it", signal)


def end(services: Sequence[Service]) -> None:
    """Stop the services, and give their threads a moment to end."""
    for service in services:
        service.stop()
    # A beat under way would register this process again after it has left.
    give_up = time.monotonic() + SERVICES_END_SECONDS
    for service in services:
        service.join(max(0.0, give_up - time.monotonic()))


def start_thread(action: Callable[[], object], name: str, seconds: float = 0.0) -> bool:
    """Run an action in a new thread, or in this one if the system has no more; True if it ends within `seconds`."""
    try:
        thread = threading.Thread(target=action, name=name, daemon=True)
        thread.start()
    except RuntimeError as error:
        logger.warning("cannot start the thread %s: %s", name, error)
        action()
        return True
    thread.join(seconds)
    return not thread.is_alive()
