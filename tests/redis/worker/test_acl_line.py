"""The ACL line that docs/deployment.md prints is enough for a worker; only questions about the server are refused."""

from __future__ import annotations

import re
import threading

import pytest

from offsider import Reschedule, job
from offsider.worker.boot_checks import check_boot
from offsider.worker.embed import EmbeddedWorker
from tests.docs.snippets import ROOT
from tests.tagged import is_cluster

pytestmark = pytest.mark.usefixtures("default_config")

LINE = re.compile(r"^user (\S+) (.+)$", re.MULTILINE)


@pytest.fixture
def without() -> tuple[str, ...]:
    """What is taken from the line."""
    return ()


@pytest.fixture
def config(config, raw_redis, without):
    name, rules = LINE.search((ROOT / "docs" / "deployment.md").read_text()).groups()
    raw_redis.execute_command("ACL", "SETUSER", name, *(rule for rule in rules.split() if rule not in without))
    raw_redis.execute_command("ACL", "LOG", "RESET")
    config.redis.username = name
    config.redis.password = re.search(r">(\S+)", rules)[1]
    yield config
    raw_redis.execute_command("ACL", "DELUSER", name)


@pytest.mark.parametrize(
    "without, refused", [((), set()), (("+client|unblock",), {b"client|unblock"})], ids=["whole", "no unblock"]
)
def test_a_worker_does_all_its_work_with_it(config, raw_redis, refused):
    errors: list[str] = []
    again: list[int] = []
    finished = threading.Event()
    config.error_handlers.append(lambda error, context: errors.append(f"{error} {context}"))
    config.worker.queues = ["default", "*"]

    @job(retry=False)
    def drop() -> None:
        raise ValueError("dropped")

    @job
    def fail() -> None:
        raise ValueError("to the retry set")

    @job(retry=0)
    def die() -> None:
        raise ValueError("to the dead set")

    @job
    def repeat() -> None:
        again.append(1)
        if len(again) == 1:
            raise Reschedule(0.1)
        finished.set()

    with EmbeddedWorker(config):
        drop.enqueue()
        fail.enqueue()
        die.enqueue()
        raw_redis.lpush("queue:default", "no job")
        repeat.using(wait_replicas=0).enqueue_in(0.1)
        assert finished.wait(20), errors

    assert raw_redis.zcard("retry") == 1
    assert raw_redis.zcard("dead") == 2
    assert not [error for error in errors if "refused" in error or "NOPERM" in error]
    assert {denial[b"object"] for denial in raw_redis.execute_command("ACL", "LOG")} == refused | (
        {
            b"config|get",
            b"info",
            b"slowlog|get",
            b"slowlog|len",
            *([b"cluster|slots"] if is_cluster(config.redis.url) else []),
        }
    )


def test_the_boot_checks_name_checks_that_the_acl_forbids(config):
    warnings = check_boot(config)

    assert any("not checked" in warning for warning in warnings)
