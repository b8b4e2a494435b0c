"""The flight recorder: the latest finished runs of all workers, of 24 bytes each, in a ring of 16 MB.

A run is the id of its job (12 bytes), its start in epoch seconds (8), its duration in seconds (2, a half float: three
digits) and the number of its kind (2): class, release, outcome, and whether the id is a digest.

1. A job id of 24 lower-case hex digits is stored as it is, another one as its digest: its runs are found by the job id,
   but those of the class show no job id.
2. A kind gets a number at its first run. After `MAX_KINDS` others it loses the number; the kind of its old runs is then
   unknown, never wrong.
3. A search reads the ring in parts of 256 KB, on the server, the latest part first.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, cast

from offsider.storage import hashes
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script

RECORD_RUNS = Script("record_runs")
FIND_RUNS = Script("find_runs")

RUN_BYTES = 24
MAX_RUNS = 699_050
RING_BYTES = MAX_RUNS * RUN_BYTES
MAX_KINDS = 8_192
KEEP_SECONDS = 7 * 24 * 60 * 60
#: Runs in a part of the ring that one script searches.
PART_RUNS = 10_922

_JID = re.compile(r"[0-9a-f]{24}")
_RUN = struct.Struct("<12sdeH")
_JID_BYTES, _KIND_PLACE = 12, 22
#: Longest duration of a half float.
_MAX_SECONDS = 65_504.0

#: Class, release, outcome, and whether the id of the job is a digest.
Kind: TypeAlias = tuple[str, str, str, bool]
_UNKNOWN: Kind = ("", "", "", False)


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run.

    Attributes:
        jid: id of the job; empty if it is not of 24 hex digits.
        class_name: class of the job; empty if it was not declared where it ran, or is no longer known.
        release: release of the process; empty if unknown.
        outcome: ``"succeeded"``, ``"failed"`` (it will be retried), ``"died"``, ``"skipped"``, ``"rescheduled"`` or
            ``"discarded"``; empty if it is no longer known.
        started_at: in epoch seconds.
        duration_seconds: wall time, of three digits, up to 65,504 s.
    """

    jid: str
    class_name: str
    release: str
    outcome: str
    started_at: float
    duration_seconds: float


@dataclass(slots=True)
class Runs:
    """Runs of one class with one outcome, as columns."""

    jids: list[str] = field(default_factory=list[str])
    starts: list[float] = field(default_factory=list[float])
    seconds: list[float] = field(default_factory=list[float])

    def split(self) -> Iterable[tuple[bool, bytes, Runs]]:
        """Return the runs whose job ids are plain, and those with digests, each with the bytes of the ids."""
        joined = " ".join(self.jids)
        # Nearly always all are plain, which one comparison of the whole shows.
        with suppress(ValueError):
            ids = bytes.fromhex(joined)
            if ids.hex(" ", _JID_BYTES) == joined:
                return [(False, ids, self)]
        parts = {False: Runs(), True: Runs()}
        for jid, start, seconds in zip(self.jids, self.starts, self.seconds, strict=True):
            part = parts[_JID.fullmatch(jid) is None]
            part.jids.append(jid)
            part.starts.append(start)
            part.seconds.append(seconds)
        return [(digest, b"".join(map(_stored_id, part.jids)), part) for digest, part in parts.items() if part.jids]

    def packed(self, ids: bytes, kind: int) -> bytes:
        """Return the stored form: columns are interleaved in words, which takes less time than packing each run."""
        count = len(self.jids)
        raw = bytearray(count * RUN_BYTES)
        try:
            seconds = struct.pack(f"<{count}e", *self.seconds)
        except OverflowError:
            seconds = struct.pack(f"<{count}e", *(min(each, _MAX_SECONDS) for each in self.seconds))
        columns: tuple[tuple[int, bytes, Literal["H", "I"]], ...] = (
            (0, ids, "I"),
            (_JID_BYTES, struct.pack(f"<{count}d", *self.starts), "I"),
            (_JID_BYTES + 8, seconds, "H"),
            (_KIND_PLACE, kind.to_bytes(2, "little") * count, "H"),
        )
        for place, column, word in columns:
            target, source = memoryview(raw).cast(word), memoryview(column).cast(word)
            step, width = len(target) // count, len(source) // count
            first = place // target.itemsize
            for number in range(width):
                target[first + number :: step] = source[number::width]
        return bytes(raw)


def _stored_id(jid: str) -> bytes:
    if _JID.fullmatch(jid):
        return bytes.fromhex(jid)
    return hashlib.sha256(jid.encode("utf-8", "replace")).digest()[:_JID_BYTES]


def add(redis: Redis, runs: Mapping[tuple[str, str], Runs], release: str, numbers: dict[Kind, int]) -> None:
    """Append runs.

    Args:
        runs: by class and outcome.
        release: the release of this process.
        numbers: the numbers of kinds as far as this process knows them; updated.
    """
    parts: dict[Kind, tuple[bytes, Runs]] = {
        (name, release, outcome, digest): (ids, part)
        for (name, outcome), every in runs.items()
        for digest, ids, part in every.split()
    }
    changed: Sequence[int] = (0,)
    while changed:  # at most twice, unless other kinds displace these between the two calls
        packed = b"".join(part.packed(ids, numbers.get(kind, 0)) for kind, (ids, part) in parts.items())
        arguments: list[Argument] = [RING_BYTES, MAX_KINDS, KEEP_SECONDS, packed]
        for kind in parts:
            arguments += (numbers.get(kind, 0), json.dumps(kind, ensure_ascii=False, separators=(",", ":")))
        changed = redis.run(RECORD_RUNS, [redis.keys.finished_runs, redis.keys.run_kinds], arguments)
        numbers.update(zip(parts, changed, strict=False))


class _Ring(NamedTuple):
    """What the ring contains.

    Attributes:
        written: bytes ever written.
        kinds: number -> bytes ever written before its first run, and kind.
    """

    written: int
    kinds: Mapping[int, tuple[int, Kind]]

    def kind(self, number: int, place: int) -> Kind:
        """Return the kind of a run at a place of the ring; empty if its number belongs to another kind by now."""
        since, kind = self.kinds.get(number, (0, _UNKNOWN))
        end = self.written % RING_BYTES
        return kind if self.written - end + place - (RING_BYTES if place >= end else 0) >= since else _UNKNOWN

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield the parts that contain runs, first and last byte, the latest part first."""
        size, end = PART_RUNS * RUN_BYTES, self.written % RING_BYTES
        for first, after in ((0, end), (end, RING_BYTES) if self.written >= RING_BYTES else (0, 0)):
            for last in range(after, first, -size):
                yield max(first, last - size), last - 1


def _read_ring(redis: Redis) -> _Ring:
    kinds: dict[int, tuple[int, Kind]] = {}
    written = 0
    for number, value in hashes.texts(redis.call("HGETALL", redis.keys.run_kinds)):
        if number == "written":
            written = hashes.whole(value) or 0
            continue
        place, (since, _, written_kind) = hashes.whole(number), value.partition(" ")
        kind = hashes.json_value(written_kind)
        if place is not None and isinstance(kind, list) and len(cast("list[object]", kind)) == len(_UNKNOWN):
            name, release, outcome, digest = cast("list[object]", kind)
            kinds[place] = hashes.whole(since) or 0, (str(name), str(release), str(outcome), bool(digest))
    return _Ring(written, kinds)


def of_job(redis: Redis, jid: str) -> list[FinishedRun]:
    """Return the runs of a job, the latest first."""
    wanted = _stored_id(jid)
    ring = _read_ring(redis)
    found = [run for part in ring.parts() for run in _search(redis, ring, part, [wanted])]
    return _latest(run for run in found if run.jid in (jid, ""))


def of_class(redis: Redis, name: str, count: int) -> list[FinishedRun]:
    """Return the last runs of a class, the latest first."""
    ring = _read_ring(redis)
    wanted = [number.to_bytes(2, "little") for number, (_, kind) in ring.kinds.items() if kind[0] == name]
    found: list[FinishedRun] = []
    if wanted:
        for part in ring.parts():
            found += [
                run
                for run in _search(redis, ring, part, wanted, count)
                if run.class_name == name  # not those of a kind that had the number before
            ]
            if len(found) >= count:
                break
    return _latest(found)[:count]


def oldest_at(redis: Redis) -> float | None:
    """Return when the oldest run began, in epoch seconds; None if there is none."""
    ring = _read_ring(redis)
    first = ring.written % RING_BYTES if ring.written >= RING_BYTES else 0
    raw: bytes = redis.call("GETRANGE", redis.keys.finished_runs, first, first + RUN_BYTES - 1)
    return _decoded(raw, _UNKNOWN).started_at if raw else None


def _search(
    redis: Redis, ring: _Ring, part: tuple[int, int], wanted: Sequence[bytes], count: int = MAX_RUNS
) -> list[FinishedRun]:
    """Return the last runs in a part of the ring with one of these ids, or with one of these numbers of kinds."""
    inside = 0 if len(wanted[0]) == _JID_BYTES else _KIND_PLACE
    reply = redis.run(FIND_RUNS, [redis.keys.finished_runs], [*part, RUN_BYTES, inside, count, *wanted])
    pairs = cast("list[tuple[int, bytes]]", list(zip(reply[::2], reply[1::2], strict=True)))
    return [_decoded(raw, ring.kind(int.from_bytes(raw[_KIND_PLACE:], "little"), place)) for place, raw in pairs]


def _decoded(raw: bytes, kind: Kind) -> FinishedRun:
    stored, started_at, seconds, _ = _RUN.unpack(raw)
    name, release, outcome, digest = kind
    shown_seconds = max(0.0, float(f"{seconds:.3g}"))
    return FinishedRun("" if digest else stored.hex(), name, release, outcome, started_at, shown_seconds)


def _latest(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    return sorted(runs, key=lambda run: run.started_at + run.duration_seconds, reverse=True)
