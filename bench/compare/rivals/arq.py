"""arq with a short poll: its default of 0.5 s starts no more than the concurrency in each half second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, _concurrency: int) -> Sequence[str | Path]:
    return (programs / "python", "-m", "arq_app")


CONTESTANTS = (
    Contestant(
        name="arq",
        app="arq_app",
        rate=1_800,
        worker=_worker,
        settings="asyncio, poll each 5 ms, 1,000 ids a read, no results",
        safety="leaves Redis after the job; runs again 310 s after its process died",
        requirements=("arq==0.28.0", "redis==5.3.1", "hiredis==3.5.0"),
    ),
)
