"""Names of jobs and what they stand for. Filled by declarations; touches neither configuration nor Redis."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from offsider.core.errors import InvalidOptions, UnknownJob
from offsider.core.wording import listed
from offsider.jobs.declared import Declared
from offsider.wiring.config import Config
from offsider.wiring.known_jobs import found_by, listed_by
from offsider.wiring.routing import route

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
    """Make ``job`` known under its name and aliases.

    The same declaration may come again (a reloaded module) and replaces the earlier one.

    Raises:
        InvalidOptions: another job has one of these names; the message tells both places.
    """
    with _lock:
        for name in (job.name, *job.aliases):
            known = _jobs.get(name)
            if known is not None and not known.is_same_as(job):
                raise InvalidOptions(f"two jobs are called {name!r}: {known.place} and {job.place}; name one of them")
        for name in [name for name, known in _jobs.items() if known.is_same_as(job) and known.name == job.name]:
            del _jobs[name]
        for name in (job.name, *job.aliases):
            _jobs[name] = job


def note_base(cls: type) -> None:
    """Remember a class of jobs that is none itself, having no ``perform``: without a subclass that is odd."""
    _bases.add(cls)


def find(name: str) -> Declared:
    """The job that is stored under ``name``. Raises UnknownJob."""
    try:
        return _jobs[name]
    except KeyError:
        raise UnknownJob(
            name,
            f"no job is registered under the name {name!r}: "
            "import the module that declares it (-r), or make the name an alias of the job",
        ) from None


def peek(name: str) -> Declared | None:
    """The job that is stored under ``name``; None when it is not declared here."""
    return _jobs.get(name)


found_by(peek)


def names() -> frozenset[str]:
    """Every name and alias that is registered."""
    with _lock:
        return frozenset(_jobs)


def signatures() -> dict[str, str]:
    """Every name and alias that is registered, with the digest of its job's signature."""
    with _lock:
        return {name: job.signature.digest for name, job in _jobs.items()}


def all_jobs() -> list[Declared]:
    """Every job once, in the order of their declaration."""
    with _lock:
        return list(dict.fromkeys(_jobs.values()))


listed_by(all_jobs)


def check_all(config: Config) -> None:
    """Check every declaration against ``config`` and its extensions, before a worker starts.

    A class of jobs that has neither ``perform`` nor subclasses is warned about, and so is a job that promises more than
    it can keep.

    Raises:
        InvalidOptions: the first option that is unknown or impossible.
        ConfigurationError: a job goes to a server that there is not.
    """
    jobs = all_jobs()
    for job in jobs:
        job.check(config)
        config.check_server(route(job, config.routing.rules, config.jobs).server, of=job.name)
    _tell_doubts(jobs)
    for base in sorted(_bases, key=lambda base: base.__qualname__):
        if not base.__subclasses__():
            logger.warning("%s.%s has no method perform, so it is no job", base.__module__, base.__qualname__)


def _tell_doubts(jobs: Iterable[Declared]) -> None:
    """One line for each kind, however many jobs have it."""
    doubted: dict[str, list[str]] = {}
    for job in jobs:
        for doubt in job.characteristics.doubts:
            doubted.setdefault(doubt, []).append(job.name)
    for doubt, names in doubted.items():
        if len(names) == 1:
            logger.warning("%s %s", names[0], doubt)
        else:
            logger.warning("each of %d jobs %s: %s", len(names), doubt, listed(names))


@contextmanager
def isolated() -> Generator[None, None, None]:
    """Forget what is registered inside the block, for tests that declare jobs."""
    with _lock:
        before = dict(_jobs)
    try:
        yield
    finally:
        with _lock:
            _jobs.clear()
            _jobs.update(before)
