"""Workers against an emptied Valkey; tests that ask for `raw_redis` or `redis_url` too would run on both servers.

Fixtures
    url       of the server
    tag       the beginning of every key there: the hash tag of a Cluster, else empty
    other_url URL of another empty server
    stored    a plain redis-py client of it
    workers   starts worker processes; all are gone after the test
    ledger    what their jobs noted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.process.ledger import Ledger
from tests.process.workers import Workers
from tests.tagged import client_of, prefix_of


@pytest.fixture
def url(embedded_url: str) -> str:
    return embedded_url


@pytest.fixture
def stored(url: str) -> Iterator[redis.Redis]:
    with client_of(url) as client:
        yield client


@pytest.fixture
def other_url(url: str, other_url_of: Callable[[str], str]) -> str:
    return other_url_of(url)


@pytest.fixture
def tag(url: str) -> str:
    return prefix_of(url)


@pytest.fixture
def workers(url: str, tmp_path: Path) -> Iterator[Workers]:
    started = Workers(tmp_path, url)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture
def ledger(workers: Workers) -> Ledger:
    return workers.ledger
