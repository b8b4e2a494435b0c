"""The tables of the comparison."""

from __future__ import annotations

from collections.abc import Sequence

from bench.compare.rivals import Contestant
from bench.report import Column, Rows, markdown, table

TABLES = {
    "No-op jobs per second": (
        Column("drain", "rate", "one process"),
        Column("drain2", "rate", "two processes"),
        Column("log", "rate", "one, job log at INFO"),
        Column("drain", "proxy_cores", "CPU of the proxy, cores", 2),
    ),
    "CPU time and commands of a no-op job, one process": (
        Column("drain", "worker_us", "CPU of the worker, us", 1),
        Column("drain", "server_us", "CPU of the server, us", 1),
        Column("drain", "commands", "commands", 2),
        Column("drain", "reads", "reads of the server's sockets", 2),
        Column("drain", "middle", "jobs/s, middle 80 %"),
        Column("drain", "jobs", "jobs in a run"),
    ),
    "Jobs of 10 ms, one process, jobs per second": (
        Column("sleep50", "rate", "concurrency 50"),
        Column("sleep100", "rate", "concurrency 100"),
        Column("sleep100", "rate", "of ideal, %", times=100 / 10_000),
        Column("sleep100", "worker_us", "CPU of the worker, us", 1),
    ),
    "Pushed by one producer, jobs per second": (
        Column("push", "rate", "one by one"),
        Column("push", "producer_cpu_us", "CPU of the producer, us", 1),
        Column("push", "commands", "commands", 1),
        Column("apush", "rate", "one by one, by a coroutine"),
        Column("bulk", "rate", "in bulk"),
    ),
    "From push to start with an idle worker, ms": (
        Column("latency", "p50", "p50", 2),
        Column("latency", "p99", "p99", 2),
        Column("latency", "silence", "first after 3 s of silence", 2),
    ),
    "Idle worker at concurrency 10": (
        Column("memory", "processes", "processes"),
        Column("memory", "rss_mb", "RSS, MB"),
        Column("memory", "pss_mb", "PSS, MB"),
        Column("memory", "idle_cpu", "CPU, %", 2),
        Column("memory", "idle_commands", "commands/s", 1),
        Column("memory", "queued_mb", "server, MB for 10,000 queued jobs", 1),
    ),
    "`kill -9` of a worker and all its processes during 200 jobs of 50 ms, replaced immediately": (
        Column("kill", "running", "running when killed"),
        Column("kill", "lost", "not run"),
        Column("kill", "doubled", "ran to the end twice"),
        Column("kill", "last_seconds", "last job ended after, s", 1),
        Column("kill", "patience", "waited, s"),
    ),
}


def report(about: str, rows: Rows, contestants: Sequence[Contestant]) -> str:
    """Return all tables that have figures, and the settings of the contestants."""
    names = [one.name for one in contestants]
    tables = (table(rows, title, names, columns) for title, columns in TABLES.items())
    settings = [
        [one.name, ", ".join(one.requirements).replace("==", " ") or "see above", one.settings, one.safety]
        for one in contestants
    ]
    heads = ["", "versions", "settings", "when a process dies"]
    return "\n\n".join([about, *filter(None, tables), markdown(heads, settings, "Settings")])
