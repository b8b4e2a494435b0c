"""offsider with jobs whose argument is their duration."""

from __future__ import annotations

import os
import time

import probe

from offsider import Client, Config, job

config = Config()
config.redis.url = os.environ["REDIS_URL"]


@job(name="mixed", client=Client(config))
def mixed(number: int, job_ms: float) -> None:
    probe.started(number)
    time.sleep(job_ms / 1000)
    probe.ended(number)
