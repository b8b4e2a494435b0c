"""Forking the keeper: before the application is imported, while the process has one thread and no connection.

1. The process forks; the child is the keeper and never returns.
2. The keeper takes no orders from a terminal or a process manager: it goes when its worker has gone, and not before
   that worker's jobs are back.
3. The worker keeps the link, over which it tells who it is.
4. The keeper answers for the health endpoint, whose port was bound before the fork.
"""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.failure import flush_output
from offsider.cli.title import title_setter
from offsider.wiring.logs import describe, logger
from offsider.worker.keeper.channel import Channel
from offsider.worker.keeper.link import KeeperLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.cli.health import HealthServer
    from offsider.wiring.config import Config

# What a terminal or a process manager sends to a whole group, or a person by mistake.
IGNORED = ("TERM", "INT", "QUIT", "HUP", "TSTP", "TTIN", "TTOU", "USR1", "USR2")


def start_keeper(config: Config, health: HealthServer | None = None) -> KeeperLink | None:
    """A keeper for this process; None, with a warning, where there shall or can be none.

    Args:
        config: as it is before the application has its say.
        health: served by the keeper, and closed here once there is one.
    """
    if not config.worker.keeper or not hasattr(os, "fork"):
        warn_of_no_keeper(config)
        return None
    channel = Channel()
    keeper_pid = fork_keeper(config, channel, os.getpid(), health)
    channel.only_send()
    if health is not None:
        health.close()
    return KeeperLink(channel, keeper_pid)


def warn_of_no_keeper(config: Config) -> None:
    logger.warning(
        "there is no keeper: when a job holds the interpreter for %g s (worker.liveness_seconds), others take this "
        "worker for dead, and its jobs run twice",
        config.worker.liveness_seconds,
    )


def fork_keeper(
    config: Config,
    channel: Channel,
    starter_pid: int,
    health: HealthServer | None = None,
    let_go: Callable[[], None] = lambda: None,
) -> int:
    """Fork a keeper; answers its pid. Does not return in the keeper.

    Args:
        config: for its log and its reports.
        channel: what it reads from.
        starter_pid: of the process that it goes with.
        health: served by the keeper.
        let_go: closes in the keeper what is the starter's alone.
    """
    flush_output()
    pid = os.fork()
    if pid == 0:
        _keep(config, channel, starter_pid, health, let_go)
    return pid


def _keep(
    config: Config, channel: Channel, starter_pid: int, health: HealthServer | None, let_go: Callable[[], None]
) -> NoReturn:
    try:
        let_go()
        for name in IGNORED:
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
        channel.only_receive()
        title_setter()(f"offsider keeper of {starter_pid}")
        gc.freeze()
        # Imported here, in the keeper alone: the worker brings the engine when it needs it.
        from offsider.worker.keeper.keeping import Keeper

        keeper = Keeper(config, channel, starter_pid)
        if health is not None:
            health.health, health.sums = lambda: keeper.health, keeper.sums
            health.serve()
            keeper.on_no_more = health.close
        keeper.run()
    except BaseException as error:  # noqa: BLE001  # nobody is there to raise it to; the workers go on alone
        logger.error("the keeper fails: %s", describe(error), exc_info=error)
        flush_output()
        os._exit(1)
    flush_output()
    os._exit(0)
