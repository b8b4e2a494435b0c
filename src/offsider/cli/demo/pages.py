"""The demo's web UI: the real one, started as a user would start it, beside the workers.

The module is also the application that it is given (``-r``): all that this does is to end the pages with the demo.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from offsider.wiring.config import Config
from offsider.wiring.service import Loop

LOOK_SECONDS = 1.0
STOP_SECONDS = 10
_SAYS_WHERE = "offsider web: "


def configure(config: Config) -> None:
    """Have the pages end when the demo is gone, also when it was killed."""
    demo = os.getppid()

    def look() -> float | None:
        if os.getppid() == demo:
            return LOOK_SECONDS
        os.kill(os.getpid(), signal.SIGTERM)
        return None

    Loop("demo-lifeline", look, on_error=config.handle_error).start()


class Pages:
    """The process that serves them; its output goes to a file.

    Args:
        folder: of the demo.
        url: of the server.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.log = folder / "web.log"
        command = [sys.executable, "-m", "offsider", "web", "--port", "0", "-r", __name__]
        ours = {key: value for key, value in os.environ.items() if not key.startswith("OFFSIDER_")}
        ours |= {"OFFSIDER_REDIS_URL": url, "OFFSIDER_LOG_FORMAT": "plain"}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # this program itself
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=ours,
                start_new_session=True,  # Ctrl-C is for the demo
            )
        self._address = ""

    @property
    def address(self) -> str:
        """Where they are; empty until they are there."""
        if not self._address:
            first, newline, _ = self.log.read_text(errors="replace").partition("\n")
            self._address = first.removeprefix(_SAYS_WHERE) if newline and first.startswith(_SAYS_WHERE) else ""
        return self._address

    @property
    def exit_code(self) -> int | None:
        """None while they are served."""
        return self._process.poll()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace").strip().rpartition("\n")[2]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
