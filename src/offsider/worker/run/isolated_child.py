"""The child process of isolated jobs; see `isolated`. Its jobs run in the main thread."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from contextlib import suppress
from contextvars import copy_context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.carried_error import carried
from offsider.core.error_text import shown
from offsider.core.errors import InvalidJob, SoftTimeout
from offsider.core.outcome import Succeeded
from offsider.jobs import registry
from offsider.jobs.clients import push_with
from offsider.logs.setup import job_level
from offsider.runtime.context import JobContext, enter_job
from offsider.runtime.forks import end_child, worker_started
from offsider.runtime.middleware import MiddlewareChain
from offsider.storage.working import Owner
from offsider.worker.memory import resident_kilobytes
from offsider.worker.run.isolated import Begun, JobEnded, Link

if TYPE_CHECKING:
    import socket

    from offsider.config.config import Config
    from offsider.core.outcome import Destination
    from offsider.storage.effects import Effect

#: Minimum time between two questions of a job whether it was cancelled or shall stop.
FRESH_SECONDS = 0.05
#: Of the client of the jobs: they run in one thread, which may start others.
CONNECTIONS = 3


class IsolatedChild:
    """The loop of a child.

    Args:
        end: its end of the link.
        config: of the application.
    """

    def __init__(self, end: socket.socket, config: Config) -> None:
        self._link = Link(end)
        self._config = config
        self._capsules: dict[str, tuple[Client, MiddlewareChain[JobContext]]] = {}
        self._lock = threading.Lock()
        self._job: JobContext | None = None
        self._in_exchange = self._is_late = False
        self._asked_at: dict[str, float] = {}
        self._replies: dict[str, Any] = {}
        self._ran = 0
        self._leaves = False

    def live(self) -> NoReturn:
        """Run jobs until the worker closes the link."""
        worker_started(owns_process=False)
        os.register_at_fork(after_in_child=self._in_fork)
        try:
            while not self._leaves:
                ended = self._ran_one(Begun(*self._link.receive()))
                self._link.send(ended)
        except (EOFError, OSError):
            pass
        os._exit(0)

    # What a job sees as `JobContext.control` and `is_stopping`

    def asked_to_stop(self) -> bool:
        return bool(self._fresh("cancelled"))

    def progress(self, done: float, total: float | None, message: str) -> None:
        self._exchange("progress", done, total, message)

    def _fresh(self, question: str) -> Any:
        now = time.monotonic()
        if now >= self._asked_at.get(question, 0.0) + FRESH_SECONDS:
            self._replies[question] = self._exchange(question)
            self._asked_at[question] = now
        return self._replies[question]

    def _exchange(self, *message: object) -> Any:
        """Send a message, and return the reply; progress has none. Without a run, and in a fork of it: None."""
        if self._job is None:
            return None
        is_main = threading.current_thread() is threading.main_thread()
        if is_main:
            self._in_exchange = True
        try:
            with self._lock:
                self._link.send(pickle.dumps(message))
                reply = None if message[0] == "progress" else self._link.receive()
        finally:
            if is_main:
                self._in_exchange = False
        if is_main and self._is_late:
            self.raise_aimed()
        return reply

    def raise_aimed(self, *_: object) -> None:
        """Raise the error that the worker has for this run: the handler of SIGTERM."""
        job = self._job
        self._is_late = job is None or self._in_exchange  # the run has not begun, or waits for another reply
        if job is None or self._is_late:
            return
        kind, message = self._exchange("error") or (None, "")
        if kind is SoftTimeout and job.iterates:
            job.must_yield = True
        elif kind is not None:
            raise kind(message)

    def _in_fork(self) -> None:
        """Leave the link to this child, in a process that a job forks; SIGTERM ends that process."""
        self._job = None
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    # The run

    def _ran_one(self, begun: Begun) -> bytes:
        job = JobContext(
            begun.payload,
            begun.queue,
            begun.raw,
            registry.find(begun.payload["class"]),
            begun.log,
            lambda: bool(self._fresh("stopping")),
            None if begun.owner is None else Owner(*begun.owner),
            begun.alone_in,
        )
        job.ends_at, job.bound = begun.ends_at, begun.bound
        if begun.has_control:
            job.control = self
        self._asked_at.clear()
        started, result, error = time.process_time(), None, None
        try:
            try:
                signal.signal(signal.SIGTERM, self.raise_aimed)  # an earlier job may have set another handler
                self._job = job
                if self._is_late:
                    self.raise_aimed()
                result = copy_context().run(self._perform, job, begun.capsule)
            finally:
                end_child(begun.payload)
                self._job = None
        except BaseException as raised:  # noqa: BLE001 - the end of the run
            error = raised
        self._ran += 1
        self._leaves = self._is_used_up()  # once: the worker gives its next job to a child that stays
        return self._message(job, result, error, time.process_time() - started)

    def _perform(self, job: JobContext, capsule: str) -> Any:
        if capsule not in self._capsules:
            self._capsules[capsule] = self._parts_of(capsule)
        client, chain = self._capsules[capsule]
        enter_job(job)
        push_with(client)
        if chain.is_empty and "log_level" not in job.payload:  # as most
            return _call(job)
        with job_level(job.payload.get("log_level")):
            return chain.run(job, _call)

    def _parts_of(self, name: str) -> tuple[Client, MiddlewareChain[JobContext]]:
        config, capsule = self._config, self._config.capsules[name]
        server = Installation.of(config)
        redis, timeout = server.make_redis(CONNECTIONS), server.settings.socket_timeout_seconds
        client = Client(server, redis, middleware=capsule.client_middleware, timeout_seconds=timeout)
        context = [entry for entry in capsule.server_middleware if getattr(entry, "sets_context", False)]
        return client, MiddlewareChain[JobContext](([] if config.reloader is None else [config.reloader]) + context)

    def _is_used_up(self) -> bool:
        worker = self._config.worker
        if 0 < worker.max_jobs_per_child <= self._ran:
            return True
        return 0 < worker.memory_per_child_mb * 1024 < resident_kilobytes()

    def _message(self, job: JobContext, result: Any, error: BaseException | None, seconds: float) -> bytes:
        ended = JobEnded(
            [] if error is None else carried(error, "offsider.jobs.declared"),
            result,
            job.log,
            job.bound,
            {**job.measured_seconds},
            job.log_lines,
            [(one.script, one.keys, _arguments(one, "gone"), _arguments(one, "retry")) for one in job.effects],
            seconds,
            self._leaves,
        )
        with suppress(Exception):  # pickle calls code of the application
            return pickle.dumps(tuple(ended))
        try:
            pickle.dumps(result)
        except Exception as why:  # noqa: BLE001 - as above
            got = type(result).__qualname__
            unfit = InvalidJob(
                f"{job.name} is isolated, and returned an object that cannot leave its process: {got}: {why}"
            )
            ended = ended._replace(result=None, error=carried(unfit, __name__))
        log = {name: shown(value, 1_000) for name, value in job.log.items()}
        return pickle.dumps(tuple(ended._replace(log=log)))


def _arguments(effect: Effect, goes: Destination) -> object:
    return next((one.arguments for one in effect.applied(Succeeded(), goes)), None)


def _call(job: JobContext) -> Any:
    declared, payload = job.declared, job.payload
    result = declared.perform(declared.make(job), payload["args"], payload.get("kwargs", {}))
    if isinstance(result, CoroutineType):
        result.close()
        raise InvalidJob(f"{job.name} is isolated, so it must be a plain function: call asyncio.run in it")
    if result is not None:
        declared.check_ran(result)
    return result
