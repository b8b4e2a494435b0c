"""Run a job in the test's thread, through the server middleware of a configuration and of the test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from offsider.client.prepared import Prepared
from offsider.config.config import Config
from offsider.config.default import default_config
from offsider.jobs.inline import run_prepared
from offsider.runtime.middleware import ServerMiddleware
from offsider.testing import wording


class Runner:
    """Runs jobs.

    Args:
        config: server middleware to run; default: the configuration of this process, read when it is needed.
        server_middleware: additional server middleware of the test, inside of that.
    """

    def __init__(self, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
        self._config = config
        self._middleware = tuple(server_middleware)

    @property
    def config(self) -> Config:
        return default_config() if self._config is None else self._config

    def run(self, prepared: Prepared) -> Any:
        """Run a job and return its result; None after ``Discard`` and ``Skip``.

        Raises:
            UnknownJob: no job is registered under its name.
            Reschedule: the job has to run later.
            BaseException: the error of the job, with a note that names the job.
        """
        chain = self.config.server_middleware.copy()
        chain.add(*self._middleware)
        payload = prepared.payload
        try:
            return run_prepared(self.config, prepared, server_middleware=chain)
        except BaseException as error:
            name = wording.call(payload["class"], payload["args"], payload.get("kwargs") or {})
            error.add_note(f"while running the job {name}")
            raise
