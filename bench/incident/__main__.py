"""The command line of `bench incident`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from bench import incident
from bench.incident.play import Incident, Size
from bench.servers import Server
from tests.process.web_process import WebProcess


def _say(event: str) -> None:
    print(f"{time.strftime('%X')}  {event}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.incident",
        description=incident.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="duration; default 180")
    parser.add_argument("--full", action="store_true", help="50,000 dead and 200,000 waiting jobs")
    parser.add_argument("--keep", action="store_true", help="keep it until Ctrl-C, to look at the pages")
    options = parser.parse_args()
    size = Size(seconds=options.seconds, **({"dead": 50_000, "waiting": 200_000} if options.full else {}))
    with tempfile.TemporaryDirectory(prefix="offsider-incident-") as name:
        folder = Path(name)
        server = Server(folder / "server")
        web = WebProcess(folder, server.url, "-r", "bench.incident.application")
        print(f"pages: {web.url}   server: {server.url}", flush=True)
        try:
            with Incident(folder, server.url, size, _say) as it:
                it.play()
                with suppress(KeyboardInterrupt):
                    while options.keep:
                        time.sleep(1)
        finally:
            web.close()
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
