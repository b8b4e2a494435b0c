"""The registry of declared jobs by name. Uses neither configuration nor Redis."""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from offsider.config.config import Config
from offsider.config.routing import provided_by, route
from offsider.core.errors import InvalidOptions, UnknownJob
from offsider.core.wording import listed
from offsider.jobs.declared import Declared

__all__ = [
    "Declared",
    "all_jobs",
    "check_all",
    "find",
    "isolated",
    "names",
    "note_base",
    "peek",
    "register",
    "signatures",
]

logger = logging.getLogger("offsider")

_lock = threading.Lock()
_jobs: dict[str, Declared] = {}
_bases: weakref.WeakSet[type] = weakref.WeakSet()


def register(job: Declared) -> None:
    """Register ``job`` under its name and aliases.

    A repeated declaration (of a reloaded module) replaces the earlier one.

    Raises:
        InvalidOptions: another job has one of these names; the message contains both source locations.
    """
    with _lock:
        for name in (job.name, *job.aliases):
            known = _jobs.get(name)
            if known is not None and not known.is_same_as(job):
                raise InvalidOptions(
                    f"two jobs are called {name!r}: {known.place} and {job.place}; give one of them another name="
                )
        for name in [name for name, known in _jobs.items() if known.is_same_as(job) and known.name == job.name]:
            del _jobs[name]
        for name in (job.name, *job.aliases):
            # Interned: without the GIL, CPython 3.13 takes a lock to look up others. `check` refuses other types.
            _jobs[sys.intern(name) if type(name) is str else name] = job


def note_base(cls: type) -> None:
    """Note a subclass of ``Job`` without ``perform``; `check_all` warns if it has no subclasses."""
    _bases.add(cls)


def find(name: str) -> Declared:
    """Return the job registered under ``name``. Raises UnknownJob."""
    try:
        return _jobs[name]
    except KeyError:
        raise UnknownJob(
            name,
            f"no job is registered under the name {name!r}: "
            "import the module that declares it (-r), or add the name to the aliases of the job",
        ) from None


def peek(name: str) -> Declared | None:
    """Return the job registered under ``name``, or None."""
    return _jobs.get(name)


def names() -> frozenset[str]:
    """Return all registered names and aliases."""
    with _lock:
        return frozenset(_jobs)


def signatures() -> dict[str, str]:
    """Return all registered names and aliases, with the digest of their job's signature."""
    with _lock:
        return {name: job.signature.digest for name, job in _jobs.items()}


def all_jobs() -> list[Declared]:
    """Return every job once, in the order of declaration."""
    with _lock:
        return list(dict.fromkeys(_jobs.values()))


provided_by(peek)


def check_all(config: Config) -> None:
    """Check every declaration against ``config`` and its extensions, before a worker starts.

    Logs a warning for a subclass of ``Job`` with neither ``perform`` nor subclasses, and for jobs that will hardly meet
    their urgency.

    Raises:
        InvalidOptions: for the first unknown or invalid option.
        ConfigurationError: a job is routed to an unknown server.
    """
    jobs = all_jobs()
    for job in jobs:
        job.check(config)
        config.server_settings(route(job, config.routing.rules, config.jobs).server, of=job.name)
    _tell_doubts(jobs)
    for base in sorted(_bases, key=lambda base: base.__qualname__):
        if not base.__subclasses__():
            logger.warning("%s.%s is not a job: define the method perform", base.__module__, base.__qualname__)


def _tell_doubts(jobs: Iterable[Declared]) -> None:
    """Log one line for each kind of doubt."""
    doubted: dict[str, list[str]] = {}
    for job in jobs:
        for doubt in job.characteristics.doubts:
            doubted.setdefault(doubt, []).append(job.name)
    for doubt, names in doubted.items():
        if len(names) == 1:
            logger.warning("%s %s", names[0], doubt)
        else:
            logger.warning("each of %d jobs %s: %s", len(names), doubt, listed(sorted(names)))


@contextmanager
def isolated() -> Generator[None, None, None]:
    """Undo registrations of the block, for tests that declare jobs."""
    with _lock:
        before = dict(_jobs)
    try:
        yield
    finally:
        with _lock:
            _jobs.clear()
            _jobs.update(before)
