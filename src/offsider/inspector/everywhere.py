"""Asking all servers of a configuration at once, so that one that is away neither hides nor holds up the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from offsider.core.errors import RedisFailure
from offsider.wiring.config import Config

T = TypeVar("T")


def ask_all(config: Config, ask: Callable[[Config], T]) -> dict[str, T | RedisFailure]:
    """The name of each server -> what it answered, or why it did not; in the order of the configuration.

    Args:
        config: whose servers.
        ask: is given the configuration as a process has it that works for that server.
    """

    def answer(server: str) -> T | RedisFailure:
        try:
            return ask(config.for_server(server))
        except RedisFailure as error:
            return error

    servers = list(config.servers)
    if len(servers) == 1:
        return {servers[0]: answer(servers[0])}
    with ThreadPoolExecutor(len(servers), thread_name_prefix="offsider-servers") as threads:
        return dict(zip(servers, threads.map(answer, servers), strict=True))


def split(answers: dict[str, T | RedisFailure]) -> tuple[dict[str, T], dict[str, RedisFailure]]:
    """The servers that answered, and those that did not. Raises the failure of the first when none did."""
    failed = {server: answer for server, answer in answers.items() if isinstance(answer, RedisFailure)}
    answered = {server: answer for server, answer in answers.items() if not isinstance(answer, RedisFailure)}
    if not answered:
        raise next(iter(failed.values()))
    return answered, failed
