"""What ties a demo's worker to the demo: neither workers nor server outlive it, even when it is killed.

1. The worker counts as a user of the embedded server, so the server stays until the last worker has left.
2. A service looks each second whether the demo is still the worker's parent, and sends TERM to itself when it is not.
3. At the worker's exit the server is let go; the last one to do so stops it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from offsider.embedded import EmbeddedServer
from offsider.wiring.config import Config
from offsider.wiring.service import Loop

SERVER_FOLDER = "server"
LOOK_SECONDS = 1.0


def tie(config: Config, folder: Path) -> None:
    """Tie the worker of ``config`` to its parent and to the server in ``folder``."""
    parent = os.getppid()
    server = EmbeddedServer(folder / SERVER_FOLDER).start()
    config.on("exit", server.stop)

    def look() -> float | None:
        if os.getppid() == parent:
            return LOOK_SECONDS
        os.kill(os.getpid(), signal.SIGTERM)
        return None

    config.add_service(lambda config: Loop("demo-lifeline", look, on_error=config.handle_error))
