"""Actions of an operator that die at a chosen request to a server.

``python -m tests.process.dying_action ACTION URL [OTHER URL]``, with an action of `ACTIONS`.

Each line of the input is the number of a request: a child acts, and dies as after ``kill -9`` after the server has
executed this request, but before its reply is read. For the data that is also a death just before the next request. The
output is a line, ``died``, or ``done`` when there was no such request.

The child is a fork, so that each death costs milliseconds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from offsider import Config
from offsider.config.installation import Installation
from offsider.inspector import JobFilter, Quarantine, Queue, RetrySet, job_place
from offsider.storage import places
from tests.process.dying import die_at

#: Batches are small, so that a few jobs make many steps.
BATCH = 3

ACTIONS: dict[str, Callable[[Config], object]] = {
    "move": lambda config: Queue("old", config).move_all("new"),
    "leave": lambda config: Queue("old", config).move_all("new", server="bulk"),
    "retry": lambda config: RetrySet(config).retry_all(),
    "kill": lambda config: RetrySet(config).kill_all(),
    "quarantine a set": lambda config: RetrySet(config).quarantine_all(),
    "quarantine a queue": lambda config: Queue("old", config).quarantine_all(JobFilter(name="HardJob")),
    "restore": lambda config: Quarantine(config).restore_all(),
}


def act(action: str, urls: list[str]) -> None:
    """Act to the end."""
    config = Config()
    config.redis.url = urls[0]
    for url in urls[1:]:
        config.add_server("bulk", url=url)
    ACTIONS[action](config)
    Installation.of(config).close()


def main(action: str, *urls: str) -> None:
    places.BATCH = job_place._BATCH = BATCH
    for number in sys.stdin:
        child = os.fork()
        if child == 0:
            die_at(int(number), after=True)
            act(action, [*urls])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit(f"an action failed with {os.WEXITSTATUS(status)}")
        print("died" if os.WIFSIGNALED(status) else "done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
