"""Write the golden payloads for tests/contract: the payloads that a real Sidekiq 8 stores in each case.

    OFFSIDER_TEST_SIDEKIQ=/path/to/sidekiq python scripts/dump_sidekiq_payloads.py

It needs `ruby` beside that `sidekiq`, with activejob installed, and a `redis-server`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from offsider.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_suffix(".rb")


def main() -> None:
    named, server_binary = os.environ.get("OFFSIDER_TEST_SIDEKIQ"), shutil.which("redis-server")
    if not named or not server_binary:
        sys.exit("set OFFSIDER_TEST_SIDEKIQ to the `sidekiq` program of an 8.x installation, and install redis-server")
    with (
        tempfile.TemporaryDirectory(prefix="offsider-") as folder,
        EmbeddedServer(folder, binary=Path(server_binary), port=0) as server,
    ):
        ran = subprocess.run(
            [str(Path(named).absolute().parent / "ruby"), str(SCRIPT)],
            env=os.environ | {"REDIS_URL": server.url, "LANG": "C.UTF-8"},
            stdout=subprocess.PIPE,
            check=True,
        )
    golden = ROOT / "tests" / "contract" / f"sidekiq-{json.loads(ran.stdout)['sidekiq']}.json"
    golden.write_bytes(ran.stdout)
    print(f"wrote {golden.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
