"""The producer: runs in a rival's environment, pushes with its app, and prints the figures as JSON.

python drive.py APP fill N             as fast as it can
python drive.py APP push N             one by one, timed
python drive.py APP apush N            one by one, by a coroutine, timed
python drive.py APP bulk N             in bulk, timed
python drive.py APP latency N GAP_MS   with a gap before each; the last one after 3 s of silence
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator

import probe

WARM = 50
SILENCE_SECONDS = 3.0
FIRST_SECONDS = 60.0


class Timer:
    """Yield numbers to push; the clock starts after the first few, once connections are open and caches are warm."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._wall = self._cpu = 0.0

    def __iter__(self) -> Iterator[int]:
        for number in range(WARM + self.count):
            if number == WARM:
                self.start()
            yield number % self.count

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def figures(self) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"rate": self.count / wall, "producer_cpu_us": cpu / self.count * 1e6}


def paced(count: int, gap_seconds: float) -> Iterator[int]:
    """Yield 0 and wait until job 0 has run; then yield ``count`` numbers, and one after a pause."""
    yield from _after(0, 0)
    deadline = time.monotonic() + FIRST_SECONDS
    while not probe.slots.done_from_the_start():
        if time.monotonic() > deadline:
            sys.exit("the first job did not run")
        time.sleep(0.01)
    time.sleep(0.5)
    for number in range(1, count + 1):
        yield from _after(gap_seconds, number)
    yield from _after(SILENCE_SECONDS, count + 1)


def _after(seconds: float, number: int) -> Iterator[int]:
    time.sleep(seconds)
    probe.slots.pushed(number)
    yield number


def done(pushed: object) -> None:
    """Await the pushes of an app whose push is a coroutine function."""
    if inspect.iscoroutine(pushed):
        asyncio.run(pushed)


def main() -> None:
    app, word, count = importlib.import_module(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    push: Callable[[Iterator[int]], object] = app.push
    push_bulk: Callable[[Iterator[int]], object] = getattr(app, "push_bulk", push)
    figures: dict[str, float] = {}
    if word == "fill":
        done(push_bulk(iter(range(count))))
    elif word == "latency":
        done(push(paced(count, float(sys.argv[4]) / 1000)))
    else:
        timer = Timer(count)
        if word in {"push", "apush"}:
            done(getattr(app, word)(iter(timer)))
        else:
            done(push_bulk(iter(range(WARM))))
            timer.start()
            done(push_bulk(iter(range(count))))
        figures = timer.figures()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
