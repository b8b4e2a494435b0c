"""Running one job in the test's own thread, through the server middleware of a configuration and of the test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from offsider.client.prepared import Prepared
from offsider.jobs.inline import run_prepared
from offsider.testing import wording
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.middleware import ServerMiddleware


class Runner:
    """Runs jobs.

    Args:
        config: whose server middleware is walked; default: this process's configuration, read when it is needed.
        server_middleware: put inside of that, for the test alone.
    """

    def __init__(self, config: Config | None = None, server_middleware: Iterable[ServerMiddleware] = ()) -> None:
        self._config = config
        self._middleware = tuple(server_middleware)

    @property
    def config(self) -> Config:
        return default_config() if self._config is None else self._config

    def run(self, prepared: Prepared) -> Any:
        """Run it and answer its result; None after ``Discard`` and ``Skip``.

        Raises:
            UnknownJob: no job is registered under its name.
            Reschedule: it wants to run later.
            BaseException: whatever the job raises, with a note that names the job.
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
