"""Checks before a worker starts, for faults that would later cause lost or stuck jobs.

They are the checks of `offsider doctor` that need few round trips, and one that only a worker can make: whether its
application registers the stored jobs. A fatal finding is an error; the others are warnings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.errors import (
    ConfigurationError,
    MalformedPayload,
    RedisFailure,
    RedisRefused,
    UnsupportedServer,
)
from offsider.core.payload import decode
from offsider.core.wording import listed
from offsider.inspector.doctor.server_checks import BOOT_CHECKS, check_scripts, check_wire_version
from offsider.inspector.finding import Finding, Severity, warn
from offsider.inspector.process import version_of
from offsider.jobs import registry
from offsider.storage import processes
from offsider.storage.sample import sample_jobs
from offsider.storage.server_info import ServerFacts, server_info

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

#: Number of jobs to examine at each end of every queue.
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
        if finding.severity is not Severity.OK:
            yield f"{where}: {finding.sentence}"


def _check_server(config: Config, redis: Redis) -> Iterator[Finding]:
    info = _info(config, redis)
    if info.cluster:
        logger.info("Cluster: %s. Ruby's Sidekiq cannot read keys with a prefix", info.cluster)
    for check in BOOT_CHECKS:
        yield from check(info)
    yield from check_scripts(redis)


def _info(config: Config, redis: Redis) -> ServerFacts:
    try:
        return server_info(redis)
    except RedisRefused as error:
        if error.code in {"NOAUTH", "WRONGPASS", "NOPERM"}:
            raise ConfigurationError(
                f"{config.redis.redacted_url} refused the login: redis.url, redis.username or redis.password is wrong"
            ) from error
        raise


def check_stored_jobs(config: Config, redis: Redis) -> Iterator[Finding]:
    """Find stored jobs with unregistered names: this worker cannot run them."""
    queues = list(dict.fromkeys(queue for capsule in config.capsules.values() for queue in capsule.queues))
    sample = sample_jobs(redis, queues, each=SAMPLE)
    missing = unregistered((raw for raws in sample.values() for raw in raws), registry.names())
    if missing:
        yield warn(
            "stored jobs",
            f"stored jobs have unregistered names: {listed(missing, MAX_NAMES)}",
            cause="this worker cannot run them",
            action="import their module with -r, or add an alias",
        )


def unregistered(raws: Iterable[bytes], known: Collection[str]) -> list[str]:
    """Return the names in ``raws`` that are not in ``known``, sorted."""
    return sorted({name for raw in raws if (name := _name(raw)) and name not in known})


def _name(raw: bytes) -> str | None:
    try:
        return decode(raw).get("class")
    except MalformedPayload:
        return None  # reported later: a worker moves it to the dead set


def check_other_processes(config: Config, redis: Redis) -> Iterator[Finding]:
    """Check that the Ruby processes on this server can read and show our data."""
    infos = processes.infos(redis, processes.rubys(redis))
    versions = {identity: version_of(info) for identity, info in infos.items()}
    readable = {identity: version for identity, version in versions.items() if version is not None}
    return check_wire_version(config.redis.wire_version, readable)


def _optional(check: Callable[[], Iterable[str]]) -> list[str]:
    """Run a check of stored data; its failure is a warning and does not prevent the start."""
    try:
        return list(check())
    except (RedisFailure, ValueError) as error:
        return [f"cannot check the stored jobs and processes: {error}"]
