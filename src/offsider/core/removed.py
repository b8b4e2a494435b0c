"""Settings, job options, commands, command options and log formats that were removed, each with its replacement.

The text completes "the setting worker.example was removed: ...", so it says what to do.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["setting", "option", "command", "command option", "log format"]

#: By ``section.key``; in a named table ``servers.NAME.key``.
SETTINGS: dict[str, str] = {
    "redis.connect_timeout_seconds": "redis.socket_timeout_seconds is for connecting too",
    "redis.pool_wait_seconds": "a caller waits one second; set client.push_timeout_seconds, or redis.client_pool_size",
    "worker.labels": "set worker.tag",
    "worker.leader": "a process whose application listens to the event leader takes part in the election",
    "worker.groups": "start a worker with -q for each group, or declare capsules",
    "worker.pin_cpus": "start workers with taskset, or with CPUAffinity= of systemd",
    "worker.quarantine_max_jobs": "the limit is 100,000 jobs",
    "worker.memory_soft_mb": "set worker.memory_max_mb",
    "worker.memory_hard_mb": "set worker.memory_max_mb",
    "worker.memory_grace_seconds": "set worker.memory_max_mb, which allows a minute above it",
    "worker.memory_min_life_seconds": "set worker.memory_max_mb, which allows a minute above it",
    "client.compress_bytes": "payloads of at least 100,000 bytes are compressed",
    "slo.high_run_seconds": "the target is 10 seconds; declare the jobs with another urgency",
    "slo.low_run_seconds": "the target is 300 seconds; declare the jobs with another urgency",
    "slo.throttled_run_seconds": "the target is 300 seconds; declare the jobs with another urgency",
    "slo.throttled_queue_seconds": "urgency throttled has no target; declare the jobs with another urgency",
    "slo.budget_window": "the window is 3 days; the page SLOs shows others",
    "slo.min_replicas": "set the minimum in the autoscaler",
    "slo.max_replicas": "set the maximum in the autoscaler",
    "shards.NAME.mode": "give its queues weights, or none for a strict order",
    "shards.NAME.min_replicas": "set the minimum in the autoscaler",
    "shards.NAME.max_replicas": "set the maximum in the autoscaler",
    "worker.metrics": "runs are always counted; remove it",
    "log.application_level": "set the level of the root logger in the application, which a worker keeps",
    "worker.keeper": "delete it; each worker has a parent process, which also beats for it",
    "worker.preload": "delete it; with several processes the application is loaded once, before they are forked",
}
#: Options of ``@job`` and of ``using``.
JOB_OPTIONS: dict[str, str] = {
    "profiler_options": 'set push.payload["profiler_options"] in client middleware',
    "weight": "declare tags",
    "client": "name a server of the configuration with server=, or push with job.via(client)",
    "keep_arguments": 'write track="arguments"',
    "outbox": 'write after_commit="outbox"; after_commit=True bypasses the outbox',
    "aliases": 'write name=("name", "former name")',
    "deduplicate": 'write unique_until="until_executed" or "until_executing", unique_for=SECONDS, and '
    "including_scheduled=True or reschedule_once=True",
    "concurrency_key": "use key=, which applies to all limits of the job",
    "rate_key": "use key=, which applies to all limits of the job",
    "fair_by": "use key= with fair_share=0.25",
    "queue_namespace": 'write queue="namespace:name"; select its jobs in a query by worker_name or tags',
}
#: Without ``offsider``: ``"queues example"``.
COMMANDS: dict[str, str] = {
    "queues unpause": "run 'offsider queues resume'",
    "shards": "run 'offsider routes check', or 'offsider worker --shard NAME --dry-run' for the queues of a shard",
    "migrate": "due jobs follow the routing rules when they are enqueued, and 'offsider queues move FROM TO' moves the "
    "jobs of a queue",
    "switches": "use offsider controls",
    "limits": "use offsider controls",
}
#: With its command: ``"worker --example"``.
COMMAND_OPTIONS: dict[str, str] = {
    "worker --group": "start a worker with -q for each group, or declare capsules",
    "worker -G": "start a worker with -q for each group, or declare capsules",
    "demo --concurrency": "each of its workers runs 5 jobs at a time",
    "worker --no-keeper": "omit it; each worker has a parent process, which also beats for it",
    "worker --preload": "omit it; with several processes the application is loaded once, before they are forked",
}
LOG_FORMATS: dict[str, str] = {
    "pretty": "use text",
    "plain": "use text, which has colors on a terminal only",
    "without_timestamp": "use text",
    "structured": "use json, which has its fields",
}

_TABLES: dict[Kind, dict[str, str]] = {
    "setting": SETTINGS,
    "option": JOB_OPTIONS,
    "command": COMMANDS,
    "command option": COMMAND_OPTIONS,
    "log format": LOG_FORMATS,
}


def message(kind: Kind, name: str) -> str:
    """Return the message about something removed; empty if ``name`` was not removed."""
    instead = _TABLES[kind].get(name)
    return f"the {kind} {name} was removed: {instead}" if instead else ""


def setting_message(name: str) -> str:
    """Return the message about a removed setting, by ``section.key``, ``table.NAME.key`` or key alone."""
    section, _, key = name.rpartition(".")
    group, _, named = section.partition(".")
    if named:
        return message("setting", f"{group}.NAME.{key}").replace(f"{group}.NAME.{key}", name)
    found = name if section else next((each for each in SETTINGS if each.rpartition(".")[2] == key), name)
    return message("setting", found)
