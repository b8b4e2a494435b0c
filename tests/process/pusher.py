"""A program that pushes jobs at a rate until a file appears, and notes each push before and after it.

    python -m tests.process.pusher RATE FILE

It notes ``try`` before a push, ``acknowledged`` after it, and ``refused`` or ``doubt`` after an error.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from offsider.client import Client
from offsider.core.errors import RedisUnavailable
from offsider.core.payload import new_jid
from tests.process.ledger import note


def main(rate: float, stop: Path) -> None:
    client, due = Client.of(), time.monotonic()
    while not stop.exists():
        jid = new_jid()
        note("try", jid)
        try:
            client.push({"class": "Short", "args": [], "jid": jid})
        except RedisUnavailable as error:
            note("doubt" if error.ambiguous else "refused", jid, error)
        else:
            note("acknowledged", jid)
        due = max(due + 1 / rate, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]))
