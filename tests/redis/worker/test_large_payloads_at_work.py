"""A job with compressed arguments through its whole life: pushed, failed, moved by the scheduler, run."""

from __future__ import annotations

import pytest

from offsider import job
from offsider.client import Client
from offsider.core.compression import decode_plain, is_compressed
from offsider.core.payload import decode
from offsider.worker.launcher import Launcher
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")

BIG = "x" * 200_000


def test_a_job_is_compressed_in_redis_and_plain_for_all_readers(worker_config, raw_redis):
    worker_config.client.large_payloads = "compress"
    worker_config.worker.concurrency = 2
    seen: list[tuple[str, bool]] = []
    ran: list[tuple[str, str]] = []

    def pushes(push):
        seen.append((push.reason, push.payload["args"] == [BIG]))
        yield

    def runs(context):
        seen.append(("run", context.args == [BIG]))
        yield

    @job(name="Export", retry_in=lambda _count, _error, payload: 3600 if payload["args"] == [BIG] else "kill")
    async def export(text: str, *, unit: str) -> None:
        if not ran:
            ran.append(("failed", unit))
            raise ValueError("the first time")
        ran.append((text, unit))

    worker_config.client_middleware.add(pushes)
    worker_config.server_middleware.add(runs)
    Client(worker_config).push({"class": export, "args": [BIG], "kwargs": {"unit": "m"}})
    launcher = Launcher(worker_config)
    launcher.start()
    try:
        (stored,) = wait_for(lambda: raw_redis.zrange("retry", 0, -1))
        assert is_compressed(decode(stored))
        assert decode(stored)["error_message"] == "the first time"
        assert (decode_plain(stored)["args"], decode_plain(stored)["kwargs"]) == ([BIG], {"unit": "m"})
        assert len(stored) < 2_000
        raw_redis.zadd("retry", {stored: 1})
        wait_for(lambda: len(ran) == 2)
    finally:
        launcher.stop()
    assert ran == [("failed", "m"), (BIG, "m")]
    assert seen == [("push", True), ("run", True), ("retry", True), ("run", True)]
