"""Samples of all queues and of the server, which one worker takes every ten seconds.

1. Workers add their claims to one hash (`run_counts`), by queue; these numbers only grow.
2. `Sampling.add` reads the size and latency of each queue, the claims, and the counters of the server. It adds what has
   changed since the last sample to two series, in steps of a minute, and stores the sample.
3. Arrivals are the change of the size plus the claims. A job that returns to its queue arrives again; one that an
   operator deletes has never arrived. Claims of Ruby's workers are unknown: arrivals and claims both lack them.

At most `MAX_QUEUES` queues are sampled, those with the most jobs. A queue without jobs and claims adds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Any, NamedTuple, cast

from offsider.core.errors import OffsiderError
from offsider.storage import hashes, queues, series
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command
from offsider.storage.series import MINUTE, Metric
from offsider.storage.server_version import info_fields

#: Interval of the samples.
SECONDS = 10.0
MAX_QUEUES = 500
#: Processes whose round trips are read.
MAX_PROCESSES = 1_000
#: Older samples are no base for differences: the time since then belongs to no minute.
EXPIRY_SECONDS = 60
_MICROSECONDS = 1_000_000
_MILLISECONDS = 1_000
_INFO: Command = ("INFO",)
_NEWEST_SLOW: Command = ("SLOWLOG", "GET", 1)
_SLOW_LOG: Command = ("SLOWLOG", "LEN")
#: Latencies are stored in hundredths of a second: a sum of 32 bits then holds a minute of latencies of 80 days.
_HUNDREDTHS = 100

#: By queue: the sums of size and latency of the samples, claims, arrivals.
QUEUES = Metric("queue_samples", 4, (MINUTE,), bits=32, max_label_sets=MAX_QUEUES)
#: Samples, milliseconds between them, and the numbers of `ServerMinute`.
SERVER = Metric("server_samples", 8, (MINUTE,), max_label_sets=1)


class QueueSample(NamedTuple):
    """A queue at the time of a sample.

    Attributes:
        size: number of jobs.
        latency_seconds: age of the next job; 0 if unknown.
        claimed: number of claims so far.
    """

    size: int
    latency_seconds: float
    claimed: int


class ServerSample(NamedTuple):
    """The server at the time of a sample: counters since its start, and gauges. 0 for what the user may not read.

    Attributes:
        commands: number of commands.
        cpu_microseconds: CPU time.
        slow_commands: number of entries that the slow log has ever got; 0 if it is empty.
        slow_log: number of its entries.
        memory_bytes: used memory.
        blocked_clients: connections in a blocking command, such as those of idle workers.
        round_trip_microseconds: the worst round trip that a process has reported in the current minute.
    """

    commands: int = 0
    cpu_microseconds: int = 0
    slow_commands: int = 0
    slow_log: int = 0
    memory_bytes: int = 0
    blocked_clients: int = 0
    round_trip_microseconds: int = 0


class Sample(NamedTuple):
    """A sample.

    Attributes:
        at: its time in epoch seconds.
        queues: the queues by name, those with the most jobs.
        is_complete: `queues` has all queues.
        server: the server.
        minute: start of the minute of the series that it was added to, in epoch seconds.
    """

    at: float
    queues: Mapping[str, QueueSample]
    is_complete: bool
    server: ServerSample
    minute: float = 0.0


class QueueMinute(NamedTuple):
    """A minute of a queue: averages of the samples, and counts.

    Attributes:
        at: start of the minute in epoch seconds.
        size, latency_seconds: averages.
        claimed: jobs that workers took.
        arrived: jobs that came in.
    """

    at: float
    size: float
    latency_seconds: float
    claimed: int
    arrived: int


class ServerMinute(NamedTuple):
    """A minute of the server. Counts are 0 if the user may not read them.

    Attributes:
        at: start of the minute in epoch seconds.
        sampled_seconds: the part of the minute that the samples cover.
        commands: number of commands.
        cpu_seconds: CPU time.
        slow_commands: new entries of the slow log.
        memory_bytes: used memory, on average.
        blocked_clients: connections in a blocking command, on average.
        round_trip_seconds: the worst round trip that a process has reported.
    """

    at: float
    sampled_seconds: float
    commands: int
    cpu_seconds: float
    slow_commands: int
    memory_bytes: float
    blocked_clients: float
    round_trip_seconds: float


class Sampling:
    """Takes samples of one server."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        #: Without those that the user may not ask: each refusal would be an entry of the server's ACL log.
        self._questions: list[Command] = [_INFO, _NEWEST_SLOW, _SLOW_LOG]

    def add(self, now: float) -> None:
        """Take a sample at ``now`` (epoch seconds), and add it to the series.

        Raises:
            RedisFailure: it is lost; the next sample counts the arrivals and claims since the last one.
        """
        keys = self._redis.keys
        own: list[Command] = [("SMEMBERS", keys.queues), ("SMEMBERS", keys.processes)]
        own += [("HGETALL", keys.claimed), ("GET", keys.sample)]
        names, processes, claimed, stored, *answers = self._redis.pipeline([*own, *self._questions], raise_errors=False)
        before, claims, listed = _decoded(stored), hashes.wholes(claimed), queues.readable(names)
        sizes, worst = self._sizes(listed, queues.readable(processes)[:MAX_PROCESSES])
        chosen = _chosen(sizes, claims, before)
        waiting = [name for name in chosen if sizes[name]]
        oldest = dict(zip(waiting, queues.enqueued_at(self._redis, waiting), strict=True)) if waiting else {}
        found = {
            name: QueueSample(sizes[name], max(0.0, now - (oldest.get(name) or now)), claims.get(name, 0))
            for name in chosen
        }
        _write(self._redis, Sample(now, found, len(chosen) == len(listed), self._server(answers, worst)), before)
        if deleted := claims.keys() - sizes.keys():
            self._redis.call("HDEL", keys.claimed, *deleted)

    def _sizes(self, listed: Sequence[str], processes: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return the size of each queue, and the worst round trip of the processes in microseconds."""
        keys = self._redis.keys
        asked: list[Command] = [("LLEN", keys.queue(name)) for name in listed]
        asked += [("HGET", keys.process(one), "rtt_us") for one in processes]
        replies = [*map(hashes.count, self._redis.pipeline(asked, raise_errors=False))] if asked else []
        return dict(zip(listed, replies, strict=False)), max(replies[len(listed) :], default=0)

    def _server(self, answers: Sequence[object], worst: int) -> ServerSample:
        by_question = dict(zip(self._questions, answers, strict=True))
        self._questions = [one for one, answer in by_question.items() if not isinstance(answer, OffsiderError)]
        info, newest, slow_log = map(by_question.get, (_INFO, _NEWEST_SLOW, _SLOW_LOG))
        fields = info_fields(info)
        cpu = sum(hashes.number_field(fields.get(f"used_cpu_{part}")) for part in ("sys", "user"))
        entries = cast("list[list[Any]]", newest) if isinstance(newest, list) else []
        return ServerSample(
            commands=hashes.count(fields.get("total_commands_processed")),
            cpu_microseconds=round(cpu * _MICROSECONDS),
            slow_commands=hashes.count(entries[0][0]) + 1 if entries else 0,
            slow_log=hashes.count(slow_log),
            memory_bytes=hashes.count(fields.get("used_memory")),
            blocked_clients=hashes.count(fields.get("blocked_clients")),
            round_trip_microseconds=worst,
        )


def _chosen(sizes: Mapping[str, int], claims: Mapping[str, int], before: Sample | None) -> Sequence[str]:
    """Return the queues to sample: all of them, or those with the most jobs and claims since the last sample."""
    if len(sizes) <= MAX_QUEUES:
        return list(sizes)
    claimed = {} if before is None else {name: one.claimed for name, one in before.queues.items()}
    return nlargest(MAX_QUEUES, sizes, key=lambda name: sizes[name] + claims.get(name, 0) - claimed.get(name, 0))


def _write(redis: Redis, sample: Sample, before: Sample | None) -> None:
    """Add a sample to the series, in the minute in the middle between both samples, and store it."""
    keys = redis.keys
    seconds = max(0.0, sample.at - before.at) if before else 0.0
    at = sample.at - (seconds or SECONDS) / 2
    was = before.server if before else sample.server
    minute = at // MINUTE.seconds * MINUTE.seconds
    # A cell can only grow: add what the worst round trip of this minute has grown by.
    known_worst = was.round_trip_microseconds if before and before.minute == minute else 0
    worst = max(sample.server.round_trip_microseconds, known_worst)
    server = sample.server._replace(round_trip_microseconds=worst)
    of_server = [
        1,
        round(seconds * _MILLISECONDS),
        _grown(server.commands, was.commands),
        _grown(server.cpu_microseconds, was.cpu_microseconds),
        # The log may have been emptied.
        min(max(0, server.slow_commands - was.slow_commands), server.slow_log),
        server.memory_bytes,
        server.blocked_clients,
        worst - known_worst,
    ]
    of_queues = [({"queue": name}, _cells(name, one, before)) for name, one in sample.queues.items()]
    commands = series.commands_of(keys, QUEUES, of_queues, at) + series.commands_of(keys, SERVER, [({}, of_server)], at)
    stored = json.dumps(sample._replace(server=server, minute=minute), separators=(",", ":"), ensure_ascii=False)
    series.trim(redis, [QUEUES], at)
    redis.pipeline([("MULTI",), *commands, ("SET", keys.sample, stored, "EX", EXPIRY_SECONDS), ("EXEC",)])


def _grown(now: int, before: int) -> int:
    """The growth of a counter; 0 if it has started again, or was unknown."""
    return now - before if now >= before > 0 else 0


def _cells(name: str, one: QueueSample, before: Sample | None) -> Sequence[int]:
    claimed = arrived = 0
    # Of a queue that another one displaced from the last sample, nothing is known.
    was = None if before is None else before.queues.get(name, QueueSample(0, 0, 0) if before.is_complete else None)
    if was is not None:
        claimed = max(0, one.claimed - was.claimed)
        arrived = max(0, one.size - was.size + claimed)
    return one.size, round(one.latency_seconds * _HUNDREDTHS), claimed, arrived


def last(redis: Redis) -> Sample | None:
    """Return the last sample; None if there was none within a minute."""
    return _decoded(redis.call("GET", redis.keys.sample))


def _decoded(stored: object) -> Sample | None:
    try:
        at, found, is_complete, server, minute = cast("list[Any]", json.loads(cast("bytes", stored)))
        of_queues = {str(name): QueueSample(*one) for name, one in cast("dict[str, Any]", found).items()}
        return Sample(float(at), of_queues, bool(is_complete), ServerSample(*server), float(minute))
    except (TypeError, ValueError, AttributeError, RecursionError):  # none, or that of another program
        return None


def minutes(redis: Redis, since: float, until: float) -> tuple[dict[str, list[QueueMinute]], list[ServerMinute]]:
    """Return the minutes from ``since`` to ``until`` (epoch seconds) of each queue that had jobs, and of the server."""
    first = since // MINUTE.seconds * MINUTE.seconds
    read = series.read(redis, SERVER, MINUTE, since, until)
    count = int(until // MINUTE.seconds - since // MINUTE.seconds) + 1
    steps = read[0].steps if read else [[0] * SERVER.cells] * count
    server = [_server_minute(first + place * MINUTE.seconds, cells) for place, cells in enumerate(steps)]
    samples = [max(1, cells[0]) for cells in steps]
    of_queues = {
        one.labels["queue"]: [
            QueueMinute(each.at, size / number, latency / number / _HUNDREDTHS, claimed, arrived)
            for each, number, (size, latency, claimed, arrived) in zip(server, samples, one.steps, strict=True)
        ]
        for one in series.read(redis, QUEUES, MINUTE, since, until)
        if "queue" in one.labels
    }
    return of_queues, server


def _server_minute(at: float, cells: Sequence[int]) -> ServerMinute:
    samples, covered, commands, cpu, slow, memory, blocked, worst = cells
    number = max(1, samples)
    return ServerMinute(
        at=at,
        sampled_seconds=covered / _MILLISECONDS,
        commands=commands,
        cpu_seconds=cpu / _MICROSECONDS,
        slow_commands=slow,
        memory_bytes=memory / number,
        blocked_clients=blocked / number,
        round_trip_seconds=worst / _MICROSECONDS,
    )
