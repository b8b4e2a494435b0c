"""Limiters that several processes share, counted in a second server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.limiters import measure
from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.limiters import Limiter, Limiters, LimiterSet

HOLDER = """
import sys, time
from offsider import Config
from offsider.ext.limiters import Limiter, Limiters
config = Config()
config.redis.url = sys.argv[1]
config.use(Limiters())
with Limiter.concurrent("erp", 1, lock_timeout=1, config=config).within_limit():
    print("holds", flush=True)
    time.sleep(60)
"""


@pytest.mark.timeout(120)
def test_processes_never_exceed_a_limit_and_reach_it(make_server):
    results = measure(make_server().url, make_server().url, processes=4, seconds=5)
    assert [one.kind for one in results] == ["concurrent", "bucket", "window", "leaky"]
    for one in results:
        assert 0 < one.found <= one.most, one
        assert one.reached >= 0.8, one  # on a busy machine; the bar of `bench limiters` is 0.95


def test_the_slot_of_a_killed_process_is_reclaimed(embedded_url):
    config = Config()
    config.redis.url = embedded_url
    config.use(Limiters())
    with subprocess.Popen([sys.executable, "-c", HOLDER, embedded_url], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        holder.kill()
    limiter = Limiter.concurrent("erp", 1, lock_timeout=1, wait_timeout=10, config=config)
    with limiter.within_limit():
        assert limiter.used() == 1
    state = LimiterSet(config).find("concurrent", "erp")
    assert state is not None
    assert (state.reclaimed, state.overages) == (1, 0)
    Installation.of(config).close()
