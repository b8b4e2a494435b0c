"""Profiles of single jobs: ``config.use(Profiles())``, then ``job.using(profile="ann").enqueue(7)``.

A job with the option ``profile`` is sampled each millisecond. After a success its profile is stored for a day, in the
keys of Sidekiq 8 (``lib/sidekiq/profiler.rb``), so both pages list it. Its data is a processed profile of the Firefox
Profiler in version 47, the one that Sidekiq's Vernier writes:
https://github.com/firefox-devtools/profiler/blob/main/docs-developer/CHANGELOG-formats.md
"""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote

from offsider.config.installation import Installation
from offsider.config.web_tab import WebDuration, WebLink, WebPage, WebTab, WebTable, WebTime
from offsider.core.compression import decode_plain
from offsider.core.errors import RedisFailure
from offsider.core.payload import shown_class
from offsider.storage import hashes
from offsider.storage.scripts import Argument

if TYPE_CHECKING:
    from types import FrameType

    from offsider.config.config import Config
    from offsider.config.web_tab import Cell, WebRequest
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware
    from offsider.storage.redis import Redis

PROFILE = "profile"
PATH = "/profiles"
KEEP_SECONDS = 86_400
INTERVAL_SECONDS = 0.001
#: A longer job is sampled less often: each time this number is reached, every second sample is dropped.
MAX_SAMPLES = 50_000
_VERSION = 47
_FIELDS = ("started_at", "type", "jid", "token", "elapsed", "size")


class Profiles:
    """Extension that profiles the jobs with the option ``profile``."""

    name = "profiles"

    def install(self, config: Config) -> None:
        """Add the option, the middleware and the page."""
        config.add_job_option(PROFILE, check_token)
        config.server_middleware.add(_Profiling(config))
        config.add_web_tab(
            WebTab("profiles", "Profiles", PATH, within="/jobs", routes={"": show}, json={f"{PATH}/{{key}}/data": data})
        )


def check_token(value: object) -> None:
    """Raise ValueError unless the value is a short text: who profiles, or why."""
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise ValueError(f"{PROFILE} must be a text of up to 100 letters, got {value!r}")


class Profile(NamedTuple):
    """A stored profile.

    Attributes:
        key: its key in Redis.
        started_at: in epoch seconds.
        type: class of the job.
        jid: id of the job.
        token: value of the option.
        elapsed: run time in seconds.
        size: bytes of the data.
    """

    key: str
    started_at: float
    type: str
    jid: str
    token: str
    elapsed: float
    size: int


def profiles(redis: Redis, now: float) -> list[Profile]:
    """Return the stored profiles, the latest first."""
    keys = redis.keys
    listed: list[bytes] = redis.call("ZRANGE", keys.profiles, "+inf", now, "BYSCORE", "REV", "LIMIT", 0, 1_000)
    names = [hashes.text(name) for name in listed]
    rows = redis.pipeline([("HMGET", keys.prefix + name, *_FIELDS) for name in names]) if names else []
    found: list[Profile] = []
    for name, row in zip(names, rows, strict=True):
        started_at, kind, jid, token, elapsed, size = (hashes.text(value or b"") for value in row)
        if kind:
            seconds, took, size_bytes = (hashes.number_field(value) for value in (started_at, elapsed, size))
            found.append(Profile(name, seconds, kind, jid, token, took, int(size_bytes)))
    return found


# ------------------------------------------------------------------------------------- recording


class _Profiling:
    """Server middleware that samples a run, and stores its profile if it succeeds."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def concerns(self, job: JobContext) -> bool:
        return PROFILE in job.payload

    def __call__(self, job: JobContext) -> Middleware:
        token = job.payload.get(PROFILE)
        if not token:
            yield
            return
        recording, ended = Recording(self._config.clock.now()), threading.Event()
        began = time.perf_counter()
        sampler = threading.Thread(target=_sample, args=(job, recording, ended), name="offsider-profile", daemon=True)
        sampler.start()
        try:
            yield
        finally:
            ended.set()
            sampler.join()
        try:
            _store(Installation.of(self._config).redis, job, str(token), recording, time.perf_counter() - began)
        except RedisFailure as error:
            # Not `job.payload`, which is decrypted here.
            self._config.handle_error(error, {"context": "storing a profile", "job": decode_plain(job.raw)})


def _sample(job: JobContext, recording: Recording, ended: threading.Event) -> None:
    began = time.perf_counter()
    while not ended.wait(INTERVAL_SECONDS * recording.every):
        frames = () if job.reach is None else job.reach.frames()
        if frames:
            recording.add(time.perf_counter() - began, frames)


def _store(redis: Redis, job: JobContext, token: str, recording: Recording, seconds: float) -> None:
    packed = gzip.compress(json.dumps(recording.as_firefox(job.shown_name)).encode(), mtime=0)
    key, started_at = f"{token}-{job.jid}", int(recording.started_at)
    facts: dict[str, Argument] = {
        "started_at": started_at,
        "token": token,
        "type": shown_class(job.payload),
        "jid": job.jid,
    }
    facts |= {"filename": f"{key}.json.gz", "elapsed": round(seconds, 3), "data": packed, "size": len(packed)}
    keys = redis.keys
    flat = [each for pair in facts.items() for each in pair]
    redis.pipeline(
        [
            ("MULTI",),
            ("ZADD", keys.profiles, time.time() + KEEP_SECONDS, key),
            ("ZREMRANGEBYSCORE", keys.profiles, "-inf", time.time()),
            ("HSET", keys.profile(token, job.jid), *flat),
            ("EXPIRE", keys.profile(token, job.jid), KEEP_SECONDS),
            ("EXEC",),
        ]
    )


@dataclass
class Recording:
    """The samples of a run, as tables of the Firefox Profiler: strings, functions, frames and stacks.

    Attributes:
        started_at: in epoch seconds.
        every: number of intervals between two samples.
    """

    started_at: float
    every: int = 1
    _times: list[float] = field(default_factory=list[float])
    _samples: list[int] = field(default_factory=list[int])
    _strings: dict[str, int] = field(default_factory=dict[str, int])
    #: Name and file, as numbers of strings, and first line.
    _functions: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])
    #: Function and line.
    _frames: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    #: Outer stack and frame.
    _stacks: dict[tuple[int | None, int], int] = field(default_factory=dict[tuple[int | None, int], int])

    def add(self, seconds: float, frames: Sequence[FrameType]) -> None:
        """Add a sample: its frames, outermost first."""
        stack: int | None = None
        for frame in frames:
            code = frame.f_code
            function = (self._string(code.co_qualname), self._string(code.co_filename), code.co_firstlineno)
            number = self._functions.setdefault(function, len(self._functions))
            place = self._frames.setdefault((number, frame.f_lineno or 0), len(self._frames))
            stack = self._stacks.setdefault((stack, place), len(self._stacks))
        self._times.append(round(seconds * 1000, 3))
        self._samples.append(cast("int", stack))
        if len(self._samples) >= MAX_SAMPLES:
            self.every *= 2
            self._times, self._samples = self._times[::2], self._samples[::2]

    def as_firefox(self, name: str) -> dict[str, Any]:
        """Return the profile."""
        count = len(self._samples)
        stacks, frames, functions = [*self._stacks], [*self._frames], [*self._functions]
        thread = {
            "name": name,
            "isMainThread": True,
            "processType": "default",
            "processName": "offsider",
            "processStartupTime": 0,
            "processShutdownTime": None,
            "registerTime": 0,
            "unregisterTime": None,
            "pausedRanges": [],
            "pid": str(os.getpid()),
            "tid": 1,
            "samples": {
                "stack": self._samples,
                "time": self._times,
                "weight": [1] * count,
                "weightType": "samples",
                "length": count,
            },
            "markers": _table({"data": [], "name": [], "startTime": [], "endTime": [], "phase": [], "category": []}),
            "stackTable": _table(
                {
                    "frame": [frame for _, frame in stacks],
                    "prefix": [prefix for prefix, _ in stacks],
                    **dict.fromkeys(("category", "subcategory"), [0] * len(stacks)),
                }
            ),
            "frameTable": _table(
                {
                    "func": [function for function, _ in frames],
                    "line": [line for _, line in frames],
                    "address": [-1] * len(frames),
                    **dict.fromkeys(("inlineDepth", "category", "subcategory", "innerWindowID"), [0] * len(frames)),
                    **dict.fromkeys(("nativeSymbol", "implementation", "column"), [None] * len(frames)),
                }
            ),
            "funcTable": _table(
                {
                    "name": [name for name, _, _ in functions],
                    "fileName": [file for _, file, _ in functions],
                    "lineNumber": [line for _, _, line in functions],
                    "resource": [-1] * len(functions),
                    "columnNumber": [None] * len(functions),
                    **dict.fromkeys(("isJS", "relevantForJS"), [False] * len(functions)),
                }
            ),
            "resourceTable": _table({"lib": [], "name": [], "host": [], "type": []}),
            "nativeSymbols": _table({"libIndex": [], "address": [], "name": [], "functionSize": []}),
            "stringArray": [*self._strings],
        }
        meta = {
            "interval": INTERVAL_SECONDS * self.every * 1000,
            "startTime": self.started_at * 1000,
            "product": "offsider",
            "processType": 0,
            "stackwalk": 1,
            "symbolicated": True,
            "version": 28,
            "preprocessedProfileVersion": _VERSION,
            "markerSchema": [],
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "\N{MICRO SIGN}s"},
            "categories": [{"name": "Python", "color": "blue", "subcategories": ["Other"]}],
        }
        return {"meta": meta, "libs": [], "threads": [thread]}

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


def _table(columns: dict[str, list[Any]]) -> dict[str, Any]:
    return {**columns, "length": len(next(iter(columns.values())))}


# ------------------------------------------------------------------------------------- the page


def show(request: WebRequest) -> WebPage:
    """List the stored profiles."""
    server = request.installation
    rows = [[*_row(one)] for one in profiles(server.redis, server.config.clock.now())]
    columns = ("Started", "Class", "JID", "Token", "Run time", "Bytes", "")
    empty = 'No job was profiled within a day. Push one with job.using(profile="your name").enqueue(...).'
    return WebPage("Profiles", [WebTable("Profiles", columns, rows, empty=empty)])


def _row(one: Profile) -> Iterator[Cell]:
    yield from (WebTime(one.started_at), one.type, WebLink.to_job(one.jid), one.token, WebDuration(one.elapsed))
    yield from (one.size, WebLink("Data", f"{PATH}/{quote(one.key, safe='')}/data"))


def data(request: WebRequest) -> Any:
    """Return the data of a profile, for https://profiler.firefox.com; None if it has expired."""
    redis, key = request.installation.redis, request.path("key")
    keys = redis.keys
    is_listed, packed = redis.pipeline([("ZSCORE", keys.profiles, key), ("HGET", keys.prefix + key, "data")])
    return json.loads(gzip.decompress(packed)) if is_listed is not None and packed is not None else None
