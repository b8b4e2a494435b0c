"""Type-checked only: the embedded server as its users see it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from offsider.embedded import EmbeddedServer, find_server_binary, wheel_binary

with EmbeddedServer(Path("data"), port=0, config={"maxmemory": "1gb"}) as server:
    assert_type(server, EmbeddedServer)
    assert_type(server.url, str)
    assert_type(server.pid, int | None)

assert_type(find_server_binary(), Path)
assert_type(wheel_binary(), Path | None)
