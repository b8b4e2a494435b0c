"""Runs rows, each in its own process, several at once, because most rows wait more than they compute."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from bench.scoreboard.row import Report, Row

PATIENCE_SECONDS = {"smoke": 170.0, "full": 3600.0}
CLEAN_UP_SECONDS = 30.0


class Runner:
    """Runs rows of one tier.

    Args:
        side_by_side: number of concurrent rows; at most one heavy row runs at a time.
    """

    def __init__(self, tier: str, seed: int, side_by_side: int) -> None:
        self._tier = tier
        self._seed = seed
        self._side_by_side = side_by_side
        self._heavy = threading.Lock()
        self._playing: set[subprocess.Popen[str]] = set()

    def play(self, rows: Sequence[Row], *, told: Callable[[Row, Report], None] | None = None) -> list[Report]:
        """Run all rows; call ``told`` after each. The reports are in the order of the rows."""

        def one(row: Row) -> Report:
            report = self._one(row)
            if told is not None:
                told(row, report)
            return report

        # A separate thread runs the heavy rows, so that a waiting heavy row does not block a light one.
        heavy = [row for row in rows if row.heavy]
        light = [row for row in rows if not row.heavy]
        try:
            with ThreadPoolExecutor(1) as one_by_one, ThreadPoolExecutor(max(1, self._side_by_side - 1)) as several:
                pool = one_by_one if self._side_by_side == 1 else several
                played = {row.name: one_by_one.submit(one, row) for row in heavy}
                played |= {row.name: pool.submit(one, row) for row in light}
                return [played[row.name].result() for row in rows]
        except BaseException:
            self._end()
            raise

    def _one(self, row: Row) -> Report:
        command = [sys.executable, "-m", "bench.scoreboard", "--alone", row.name]
        command += ["--tier", self._tier, "--seed", str(self._seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            self._playing.add(process)
            try:
                output, _ = process.communicate(timeout=PATIENCE_SECONDS[self._tier])
                return Report.from_json(json.loads(output))
            except (subprocess.TimeoutExpired, ValueError) as error:
                _end_one(process)
                return Report(row.name, self._tier, self._seed, broken=f"no report: {error}")
            finally:
                self._playing.discard(process)

    def _end(self) -> None:
        for process in [*self._playing]:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)


def _end_one(process: subprocess.Popen[str]) -> None:
    """Stop a row: let it clean up, then kill it."""
    process.terminate()
    try:
        process.wait(CLEAN_UP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
