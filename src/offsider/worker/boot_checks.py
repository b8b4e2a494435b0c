"""Checks before a worker starts, for faults that would later cause lost or stuck jobs.

1. `refuse_green_threads`: gevent and eventlet replace the threads that a worker needs.
2. The checks of `offsider doctor` that need few round trips, and one that only a worker can make: whether its
   application registers the stored jobs. A fatal finding is an error; the others are warnings.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from offsider.config.installation import Installation
from offsider.core.errors import (
    ConfigurationError,
    RedisFailure,
    RedisRefused,
    UnsupportedServer,
)
from offsider.core.payload import decode_or_none
from offsider.core.wording import listed
from offsider.inspector.finding import Finding, warn
from offsider.inspector.findings.server_checks import BOOT_CHECKS, check_scripts, check_wire_version
from offsider.inspector.process import version_of
from offsider.inspector.server_info import ServerInfo
from offsider.jobs import registry
from offsider.storage import processes
from offsider.storage.places import Place, sample

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis


logger = logging.getLogger("offsider")

#: Number of jobs to examine at each end of the sampled queues.
SAMPLE = 25
MAX_NAMES = 10


def check_boot(config: Config) -> list[str]:
    """Run every check and return the warnings.

    Raises:
        UnsupportedServer: jobs cannot run on this server.
        ConfigurationError: the login was refused.
        RedisUnavailable: the server cannot be reached.
    """
    redis = Installation.of(config).make_redis(1)
    try:
        return [
            *_shown(_check_server(config, redis), config),
            *_optional(lambda: _shown(check_stored_jobs(config, redis), config)),
            *_optional(lambda: _shown(check_other_processes(config, redis), config)),
        ]
    finally:
        redis.close()


def _shown(findings: Iterable[Finding], config: Config) -> Iterator[str]:
    where = config.redis.redacted_url
    for finding in findings:
        if finding.fatal:
            raise UnsupportedServer(f"{where}: {finding.sentence}")
        yield f"{where}: {finding.sentence}"


def _check_server(config: Config, redis: Redis) -> Iterator[Finding]:
    info = _info(config, redis)
    if info.cluster:
        logger.info("Cluster: %s. Ruby's Sidekiq cannot read keys with a prefix", info.cluster)
    for check in BOOT_CHECKS:
        yield from check(info)
    yield from check_scripts(redis)


def _info(config: Config, redis: Redis) -> ServerInfo:
    try:
        return ServerInfo.ask(redis)
    except RedisRefused as error:
        if error.code in {"NOAUTH", "WRONGPASS", "NOPERM"}:
            raise ConfigurationError(
                f"{config.redis.redacted_url} refused the login: redis.url, redis.username or redis.password is wrong"
            ) from error
        raise


def check_stored_jobs(config: Config, redis: Redis) -> Iterator[Finding]:
    """Find stored jobs with unregistered names: this worker cannot run them."""
    queues = dict.fromkeys(queue for capsule in config.capsules.values() for queue in capsule.queues)
    found = ("schedule", "retry", *(f"queue:{queue}" for queue in queues))
    jobs = sample(redis, (Place(redis, name) for name in found), each=SAMPLE)
    missing = unregistered((raw for raws in jobs.values() for raw in raws), registry.names())
    if missing:
        yield warn(
            "stored jobs",
            f"stored jobs have unregistered names: {listed(missing, MAX_NAMES)}",
            cause="this worker cannot run them",
            actions=("import their module with -r, or add an alias",),
        )


def unregistered(raws: Iterable[bytes], known: Collection[str]) -> list[str]:
    """Return the names in ``raws`` that are not in ``known``, sorted."""
    # A worker reports malformed ones when it moves them to the dead set.
    return sorted({payload["class"] for raw in raws if (payload := decode_or_none(raw))}.difference(known))


def check_other_processes(config: Config, redis: Redis) -> Iterator[Finding]:
    """Check that the Ruby processes on this server can read and show our data."""
    found = processes.hashes(redis, processes.rubys(redis))
    versions = {identity: version_of(fields.get("info", b"")) for identity, fields in found.items()}
    readable = {identity: version for identity, version in versions.items() if version is not None}
    return check_wire_version(config.redis.wire_version, readable)


def _optional(check: Callable[[], Iterable[str]]) -> list[str]:
    """Run a check of stored data; its failure is a warning and does not prevent the start."""
    try:
        return list(check())
    except (RedisFailure, ValueError) as error:
        return [f"cannot check the stored jobs and processes: {error}"]


# Modules that must be unpatched, under the names of both libraries.
_NEEDED = ("threading", "thread", "_thread", "time", "socket", "select")


def refuse_green_threads() -> None:
    """Check that the standard library is not patched.

    Raises:
        ConfigurationError: it is patched.
    """
    for library, module, asks in (
        ("gevent", "gevent.monkey", "is_module_patched"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched"),
    ):
        patcher: Any = sys.modules.get(module)
        if patcher is not None and any(getattr(patcher, asks)(name) for name in _NEEDED):
            raise ConfigurationError(
                f"{library} has patched this process (monkey patching), and a worker needs real threads: time limits "
                f"and heartbeats do not work with green threads. Patch only in programs that push, not in the "
                f"modules that the worker imports, and set worker.concurrency for the number of threads"
            )
