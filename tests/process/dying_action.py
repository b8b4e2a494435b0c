"""Actions of an operator that die at a chosen request to a server.

``python -m tests.process.dying_action ACTION URL [OTHER URL]``, with an action of `ACTIONS`.

Each line of the input is ``NUMBER before`` or ``NUMBER after``: a child acts, and dies as after ``kill -9`` just before
it sends this request, or after the server has executed it but before its reply is read. The output is a line, ``died``,
or ``done`` when there was no such request.

The child is a fork, so that each death costs milliseconds. It counts sent requests, not function calls: the package has
no hook for this, and the points stay the same when the code between changes.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from offsider import Config
from offsider.config.installation import Installation
from offsider.inspector import JobFilter, Quarantine, Queue, RetrySet, job_place
from offsider.storage import places

REPLY_MS = 2_000
#: Batches are small, so that a few jobs make many steps.
BATCH = 3

ACTIONS: dict[str, Callable[[Config], object]] = {
    "move": lambda config: Queue("old", config).move_all("new"),
    "leave": lambda config: Queue("old", config).move_all("new", server="bulk"),
    "retry": lambda config: RetrySet(config).retry_all(),
    "kill": lambda config: RetrySet(config).kill_all(),
    "quarantine a set": lambda config: RetrySet(config).quarantine_all(),
    "quarantine a queue": lambda config: Queue("old", config).quarantine_matching(JobFilter(name="HardJob")),
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


def die_at(number: int, *, after: bool) -> None:
    """Have this process die at its request of this number."""
    sent = 0

    def around(send: Callable[..., Any]) -> Callable[..., Any]:
        def sending(connection: socket.socket, data: Any, *flags: int) -> Any:
            nonlocal sent
            sent += 1
            if sent == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = send(connection, data, *flags)
            if sent == number:
                poller = select.poll()
                poller.register(connection, select.POLLIN)
                poller.poll(REPLY_MS)
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return sending

    for name in ("sendall", "send"):
        setattr(socket.socket, name, around(getattr(socket.socket, name)))


def main(action: str, *urls: str) -> None:
    places.BATCH = job_place._BATCH = BATCH
    for line in sys.stdin:
        number, when = line.split()
        child = os.fork()
        if child == 0:
            die_at(int(number), after=when == "after")
            act(action, [*urls])
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit(f"an action failed with {os.WEXITSTATUS(status)}")
        print("died" if os.WIFSIGNALED(status) else "done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
