"""The mode with everything real: a server and a worker of the test process, with a way to wait for the worker."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache

from offsider.config import test_mode
from offsider.config.config import DEFAULT, Config
from offsider.config.default import application_config, default_config, set_default_config
from offsider.config.installation import Installation
from offsider.config.routing import EVERY
from offsider.core.errors import ConfigurationError
from offsider.core.outcome import Failed
from offsider.embedded import EmbeddedServer
from offsider.jobs.routes import serve_selected
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware
from offsider.storage import stats
from offsider.worker.embed import RUNS_ALREADY, EmbeddedWorker

POLL_SECONDS = 0.02
_server_in_use = threading.Lock()


@contextmanager
def real(config: Config | None = None) -> Generator[RunningWorker, None, None]:
    """Push to a real server, and run the jobs in a real worker, during the block: with results, batches and retries.

    ::

        with testing.real() as worker:
            jid = report.enqueue(7)
            worker.wait()
            assert jid.result() == 42

    The server is empty at the start. It belongs to this process and ends with it. Needs
    ``pip install "offsider[demo]"``, or a program ``valkey-server`` or ``redis-server``.

    Args:
        config: settings, middleware and extensions; by default as the application configures this process. Its
            ``redis.url`` is that of the server during the block.

    Raises:
        ConfigurationError: there is no server program, the configuration is invalid, or another block is open.
    """
    with real_server(config) as used, RunningWorker(used) as worker:
        yield worker


@contextmanager
def real_server(config: Config | None = None) -> Generator[Config, None, None]:
    """As `real`, without a worker; yields the configuration."""
    if not _server_in_use.acquire(blocking=False):
        raise ConfigurationError(
            "testing.real() and its fixtures share one server, which is empty at the start of each block: another "
            "block is open in this process; use its worker, or end it first"
        )
    with ExitStack() as after:
        after.callback(_server_in_use.release)
        config = application_config() if config is None else config
        if config.frozen:
            raise ConfigurationError(RUNS_ALREADY)
        after.callback(Installation.renewed, config)
        after.callback(setattr, config.redis, "url", config.redis.url)
        config.redis.url = embedded_server().url
        server = Installation.renewed(config)  # the former pools belong to a server that must not be emptied
        server.redis.call("FLUSHALL")
        after.callback(set_default_config, set_default_config(config))
        after.enter_context(test_mode.diverted(None))
        yield config


@cache
def embedded_server() -> EmbeddedServer:
    """Return the server of this process, started at the first call."""
    folder = tempfile.mkdtemp(prefix="offsider-tests-")
    server = EmbeddedServer(folder, persist=False).start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.stop)  # before that
    return server


class RunningWorker(EmbeddedWorker):
    """Runs jobs of a real server in threads of this process, between `start` and `stop` or in a ``with`` block.

    Args:
        config: server and middleware; frozen while the worker runs. Default: the configuration of this process. Unless
            it names queues, the worker serves the queues of all declared jobs at once, and any other queue within ten
            seconds. Failed jobs move to the retry set as usual, and so do undeclared jobs, since
            ``worker.stranded_days`` is 0 until it stops.

    Attributes:
        errors: errors of jobs so far, oldest first, without ``Discard``, ``Skip`` and ``Reschedule``.
    """

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(default_config() if config is None else config)
        self.errors: list[BaseException] = []

    @contextmanager
    def _adjusted(self) -> Generator[None]:
        config = self.config
        stranded_days, handlers = config.worker.stranded_days, config.error_handlers[:]
        with super()._adjusted():
            try:
                if not config.worker.queues:
                    serve_selected(config)
                    config.worker.queues = [*map(str, config.capsules[DEFAULT].specs), EVERY]
                config.worker.stranded_days = 0
                # Error handlers run after the job has left Redis, which is too late for a test that waits.
                config.admissions.prepend(self._watch)
                config.error_handlers.append(self._note)
                yield
            finally:
                config.worker.stranded_days = stranded_days
                config.admissions.remove(self._watch)
                config.error_handlers[:] = handlers

    def wait(self, timeout_seconds: float = 10.0) -> None:
        """Wait until no job is queued or running. Does not wait for scheduled jobs and retries.

        Raises:
            AssertionError: there are still jobs after the timeout; the message lists their places.
        """
        __tracebackhide__ = True
        give_up = time.monotonic() + timeout_seconds
        while counts := stats.count_by_queue(Installation.of(self.config).redis):
            if time.monotonic() > give_up:
                raise AssertionError(f"after {timeout_seconds:g} s there are still jobs: {self._described(counts)}")
            time.sleep(POLL_SECONDS)

    def _watch(self, _job: JobContext) -> Middleware:
        outcome = yield
        if isinstance(outcome, Failed):
            self._note(outcome.error, {})

    def _note(self, error: BaseException, _context: Mapping[str, object]) -> None:
        if not any(error is known for known in self.errors):
            self.errors.append(error)

    def _described(self, counts: Mapping[str, int]) -> str:
        served = {spec for capsule in self.config.capsules.values() for spec in capsule.queues}
        words = [f"{number} {_place(name, served)}" for name, number in counts.items()]
        return ", ".join(words) + (f"; jobs raised {self.errors!r}" if self.errors else "")


def _place(name: str, served: set[str]) -> str:
    if name == "(held)":
        return "held by an extension"
    if name == "(running)":
        return "running"
    return f"in queue {name}" if name in served else f"in queue {name}, which this worker does not serve"
