"""A real worker inside the test process, with a way to wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import JobSignal, Shutdown
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.storage import stats
from offsider.worker.embed import EmbeddedWorker

POLL_SECONDS = 0.02


class RunningWorker:
    """Runs jobs of a real server in threads of this process, between `start` and `stop` or in a ``with`` block.

    Args:
        config: server and middleware; frozen by `start`. Unless it names queues, the worker serves the queues of all
            declared jobs at once, and any other queue within ten seconds. Failed jobs move to the retry set as usual,
            and so do undeclared jobs, since ``worker.stranded_days`` is set to 0.

    Attributes:
        errors: errors of jobs so far, oldest first, without ``Discard``, ``Skip`` and ``Reschedule``.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.errors: list[BaseException] = []
        self._worker = EmbeddedWorker(config)
        self._redis = Installation.of(config).make_redis(1)

    def start(self) -> Self:
        """Start to run jobs. Raises as `EmbeddedWorker.start`."""
        if not self.config.worker.queues:
            self.config.worker.queues = _queues_of_jobs(self.config)
        self.config.worker.stranded_days = 0
        for capsule in self.config.capsules.values():
            capsule.server_middleware.prepend(self._watch)
        self.config.error_handlers.append(self._note)
        self._worker.start()
        return self

    def wait(self, timeout_seconds: float = 10.0) -> None:
        """Wait until no job is queued or running. Does not wait for scheduled jobs and retries.

        Raises:
            AssertionError: there are still jobs after the timeout; the message lists their places.
        """
        __tracebackhide__ = True
        give_up = time.monotonic() + timeout_seconds
        while counts := stats.count_by_queue(self._redis):
            if time.monotonic() > give_up:
                raise AssertionError(f"after {timeout_seconds:g} s there are still jobs: {self._described(counts)}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop; unfinished jobs are requeued."""
        self._worker.stop()
        self._redis.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _watch(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        # Error handlers run after the job has left Redis, which is too late for a test that waits.
        try:
            return call_next(job)
        except (JobSignal, Shutdown):
            raise
        except BaseException as error:
            self._note(error, {})
            raise

    def _note(self, error: BaseException, _context: Mapping[str, object]) -> None:
        if not any(error is known for known in self.errors):
            self.errors.append(error)

    def _described(self, counts: Mapping[str, int]) -> str:
        served = {spec for capsule in self.config.capsules.values() for spec in capsule.queues}
        words = [f"{number} {_place(name, served)}" for name, number in counts.items()]
        return ", ".join(words) + (f"; jobs raised {self.errors!r}" if self.errors else "")


def _queues_of_jobs(config: Config) -> list[str]:
    fallback = config.jobs.stored.get("queue", "default")
    return [*sorted({fallback, *(job.options.get("queue", fallback) for job in registry.all_jobs())}), "*"]


def _place(name: str, served: set[str]) -> str:
    if name == "(held)":
        return "held by an extension"
    if name == "(running)":
        return "running"
    return f"in queue {name}" if name in served else f"in queue {name}, which this worker does not serve"
