"""Query all servers of a configuration in parallel, so that an unreachable one does not block the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure

T = TypeVar("T")


def query_all(start: Installation, ask: Callable[[Installation], T]) -> dict[str, T | RedisFailure]:
    """Return the result or the error of each server by name, in the order of the configuration.

    Args:
        start: any server of the configuration.
        ask: called once with each server.
    """

    def answer(server: str) -> T | RedisFailure:
        try:
            return ask(start.for_server(server))
        except RedisFailure as error:
            return error

    servers = list(start.config.servers)
    if len(servers) == 1:
        return {servers[0]: answer(servers[0])}
    with ThreadPoolExecutor(len(servers), thread_name_prefix="offsider-servers") as threads:
        return dict(zip(servers, threads.map(answer, servers), strict=True))


def split(answers: dict[str, T | RedisFailure]) -> tuple[dict[str, T], dict[str, RedisFailure]]:
    """Split into results and errors. Raises the first error if there is no result."""
    failed = {server: answer for server, answer in answers.items() if isinstance(answer, RedisFailure)}
    answered = {server: answer for server, answer in answers.items() if not isinstance(answer, RedisFailure)}
    if not answered:
        raise next(iter(failed.values()))
    return answered, failed
