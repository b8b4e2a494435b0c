"""Fork the keeper before the application is imported, while the process has one thread and no connection.

1. The process imports redis-py and forks; the child is the keeper and never returns. Both share the memory of all that
   was imported before.
2. The keeper ignores all signals but KILL, STOP and those of its own faults. It exits after its worker has exited and
   after it has requeued that worker's jobs.
3. The worker keeps the link, over which it sends its identity.
4. The keeper serves the health endpoint, whose port was bound before the fork.
"""

from __future__ import annotations

import gc
import os
import signal
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.failure import flush_output
from offsider.cli.signals import handled
from offsider.cli.title import title_setter
from offsider.core.error_text import describe
from offsider.logs.setup import logger
from offsider.worker.alive.keeper.channel import Channel
from offsider.worker.alive.keeper.keeping import Keeper, preload
from offsider.worker.alive.keeper.link import KeeperProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.cli.health import HealthServer
    from offsider.config.config import Config


def start_keeper(config: Config, health: HealthServer | None = None) -> KeeperProcess | None:
    """Start a keeper for this process; return None, with a warning, if it is disabled or the system cannot fork.

    Args:
        config: the configuration before the application is imported.
        health: served by the keeper; closed in this process after the fork.
    """
    if not config.worker.keeper or not hasattr(os, "fork"):
        warn_of_no_keeper(config)
        return None
    channel = Channel()
    keeper_pid = fork_keeper(config, channel, os.getpid(), health)
    channel.only_send()
    if health is not None:
        health.close()
    return KeeperProcess(channel, keeper_pid)


def warn_of_no_keeper(config: Config) -> None:
    logger.warning(
        "no keeper is running: if a job blocks the interpreter for %g s (worker.liveness_seconds), other workers "
        "declare this worker dead, and its jobs run twice",
        config.worker.liveness_seconds,
    )


def fork_keeper(
    config: Config,
    channel: Channel,
    starter_pid: int,
    health: HealthServer | None = None,
    let_go: Callable[[], None] = lambda: None,
) -> int:
    """Fork a keeper and return its pid. Does not return in the keeper.

    Args:
        config: the configuration for its log and its reports.
        channel: the channel that it reads.
        starter_pid: the process to exit with.
        health: served by the keeper.
        let_go: closes, in the keeper, the resources that only the starter uses.
    """
    flush_output()
    preload()
    # Both processes share these objects from now on: no collection touches their memory, in either of them.
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        _keep(config, channel, starter_pid, health, let_go)
    return pid


def _keep(
    config: Config, channel: Channel, starter_pid: int, health: HealthServer | None, let_go: Callable[[], None]
) -> NoReturn:
    try:
        let_go()
        # A terminal or a process manager sends signals to the whole group, and an operator by mistake.
        for number in (*handled(), signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)
        channel.only_receive()
        title_setter()(f"offsider keeper of {starter_pid}")
        if health is None:
            keeper = Keeper(config, channel, starter_pid)
        else:
            keeper = Keeper(config, channel, starter_pid, on_no_more=health.close)
            health.serve(lambda: keeper.health, keeper.totals)
        keeper.run()
    except BaseException as error:  # noqa: BLE001  # there is no caller to raise it to; the workers continue without a keeper
        logger.error("the keeper failed: %s", describe(error), exc_info=error)
        flush_output()
        os._exit(1)
    flush_output()
    os._exit(0)
