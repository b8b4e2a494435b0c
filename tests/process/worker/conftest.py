"""A server of the test's own, for tests of outages."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.servers import Server
from tests.conftest import binary_of, short_folder


@pytest.fixture
def server(workers):
    """A server with each write on disk, that can be killed and started again at the same port."""
    with short_folder() as folder:
        server = Server(Path(folder), config={"appendfsync": "always"}, binary=binary_of("redis7"))
        workers.url = server.url
        try:
            yield server
        finally:
            workers.close()
            server.close()
