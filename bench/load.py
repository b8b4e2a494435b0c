"""Load test: push jobs, run them in one real worker process, and print rates and CPU costs.

    python3 dev.py bench load --jobs 100000 --concurrency 10

The test starts its own server on a unix socket, without persistence unless ``--appendonly``. The rate counts from the
first job's start to the last job's end; the rate of the middle 80 % is printed as well. Compare figures only within
one run, because the speed of the machine changes between runs.
"""

from __future__ import annotations

import argparse
import sys

from bench.place import Place, Usage, microseconds

SINGLE_PUSHES = 5_000


def main() -> int:
    """Run the test and print its figures; exit code 1 if a job was lost."""
    parser = argparse.ArgumentParser(prog="dev.py bench load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--job-ms", type=float, default=0, help="sleep in each job")
    parser.add_argument("--asyncio", action="store_true", help="async def jobs")
    parser.add_argument("--log-level", default="warn", choices=["info", "warn"], help="info writes the job log")
    parser.add_argument("--appendonly", action="store_true", help="server with an append-only file")
    options = parser.parse_args()
    with Place(persist=options.appendonly) as place:
        return measure(options, place)


def measure(options: argparse.Namespace, place: Place) -> int:
    client, jobs = place.client(), options.jobs
    name = "anoop" if options.asyncio else "noop"
    print(f"jobs {jobs}, concurrency {options.concurrency}, {options.job_ms:g} ms each, log {options.log_level}")

    def one_by_one() -> None:
        for number in range(SINGLE_PUSHES):
            client.push({"class": f"bench.{name}", "args": [number, "two", 3], "queue": "unserved"})

    print(f"pushed one by one    {1e6 / microseconds(one_by_one, SINGLE_PUSHES):>10,.0f} /s")
    print(f"pushed by 1,000      {1e6 / microseconds(lambda: place.push_bulk(client, jobs, name), jobs):>10,.0f} /s")
    before, scripts = Usage.of(place.pid).cpu_seconds, scripts_run(place)
    ran = place.drain(jobs, concurrency=options.concurrency, job_ms=options.job_ms, log_level=options.log_level)
    print(f"jobs a script        {jobs / max(1, scripts_run(place) - scripts):>10.1f}")
    print(f"ran                  {ran.per_second:>10,.0f} /s   (middle 80 %: {ran.middle:,.0f} /s)")
    print(f"worker CPU           {ran.cpu_us:>10.1f} us a job")
    print(f"server CPU           {(Usage.of(place.pid).cpu_seconds - before) / jobs * 1e6:>10.1f} us a job")
    print(f"worker memory        {ran.first.rss_mb:>10.1f} MB at first, {ran.last.rss_mb:.1f} MB at the end")
    print(f"lost {ran.lost}, ran twice {ran.doubled}")
    return 1 if ran.lost else 0


def scripts_run(place: Place) -> int:
    return int(place.raw.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


if __name__ == "__main__":
    sys.exit(main())
