"""The reliability scoreboard: injects faults into real workers and servers, and counts the jobs by result.

    python3 dev.py scoreboard                      tier smoke: small counts, under three minutes
    python3 dev.py scoreboard --tier full          the counts of the table, over an hour, on an idle machine
    python3 dev.py scoreboard --row R1 R3 --json

1. Each row runs in its own process, with its own servers, workers, proxies and ledger. Most rows wait more than they
   compute, so tier smoke runs several at once.
2. Jobs count their effects in the ledger, a second server without faults.
3. A row reports the results of its jobs and the checks of its bar. Lost jobs are computed from acknowledged pushes, not
   from Redis' own counters.
4. The exit code is 1 if a bar is missed. In tier smoke only counts matter, in tier full times as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.scoreboard import tables
from bench.scoreboard.environment import Environment
from bench.scoreboard.row import TIERS, Report, Row
from bench.scoreboard.rows import ROWS

SEED = 20261121
TIMEOUT_SECONDS = {"smoke": 400.0, "full": 3600.0}
CLEAN_UP_SECONDS = 30.0


def main() -> int:
    options = parse()
    if options.alone:
        return run_alone(ROWS[options.alone], options)
    rows = [ROWS[name] for name in options.row] if options.row else [*ROWS.values()]
    print(f"tier {options.tier}, seed {options.seed}, {len(rows)} rows", file=sys.stderr, flush=True)
    started = time.monotonic()
    reports = run_all(rows, options)
    if options.json:
        print(json.dumps([report.as_json() for report in reports], indent=2))
    else:
        print(tables.summary(reports, time.monotonic() - started))
    if options.markdown:
        tables.update(Path(options.markdown), reports)
    return 0 if all(report.passed for report in reports) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py scoreboard", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tier", choices=TIERS, default="smoke")
    parser.add_argument("--row", nargs="+", choices=ROWS, metavar="ROW", help=" ".join(ROWS))
    parser.add_argument("--seed", type=int, default=SEED, help="seed of all random generators (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    parser.add_argument("--markdown", metavar="PAGE", help="write the results into the table of this page")
    parser.add_argument(
        "--side-by-side", type=int, metavar="N", help="rows at a time (default: 6 in tier smoke, 1 in tier full)"
    )
    parser.add_argument("--alone", choices=ROWS, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_all(rows: Sequence[Row], options: argparse.Namespace) -> list[Report]:
    """Run rows in their own processes, heavy rows one at a time; return the reports in the order of the rows."""

    def run(row: Row) -> Report:
        report = run_process(row, options)
        if not options.json:
            tables.show(row, report)
        return report

    at_once = options.side_by_side or (6 if options.tier == "smoke" else 1)
    # A separate thread runs the heavy rows, so that a waiting heavy row does not block a light one.
    heavy = ThreadPoolExecutor(1)
    light = ThreadPoolExecutor(at_once - 1) if at_once > 1 else heavy
    # The last rows take longest: none of them should run alone at the end.
    pending = {row.name: (heavy if row.heavy else light).submit(run, row) for row in reversed(rows)}
    try:
        return [pending[row.name].result() for row in rows]
    finally:  # after Ctrl-C, which reaches the processes of running rows as well, no other row starts
        for pool in (heavy, light):
            pool.shutdown(cancel_futures=True)


def run_process(row: Row, options: argparse.Namespace) -> Report:
    """Run a row in a process of its own. After its timeout, let it clean up, then kill it."""
    command = [sys.executable, "-m", "bench.scoreboard", "--alone", row.name]
    command += ["--tier", options.tier, "--seed", str(options.seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS[options.tier])
            return Report.from_json(json.loads(output))
        except (subprocess.TimeoutExpired, ValueError) as error:
            process.terminate()
            try:
                process.wait(CLEAN_UP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            return Report(row.name, options.tier, options.seed, broken=f"no report: {error}")


def run_alone(row: Row, options: argparse.Namespace) -> int:
    """Run one row in this process; print only the report to standard output."""
    # An exception, so that workers and servers are stopped as well.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    output, sys.stdout = sys.stdout, sys.stderr
    report = Report(row.name, options.tier, options.seed)
    seed = random.Random(f"{options.seed} {row.name}").getrandbits(32)
    started = time.monotonic()
    try:
        with Environment(options.tier, seed) as env:
            row.play(env, report)
            report.seconds = time.monotonic() - started
    except Exception:  # noqa: BLE001 - a row that raises has missed its bar; the others continue
        report.broken = traceback.format_exc()
        report.seconds = time.monotonic() - started
    output.write(json.dumps(report.as_json()))
    output.flush()
    os._exit(0)  # threads of a faulty proxy or client must not keep the process alive


if __name__ == "__main__":
    sys.exit(main())
