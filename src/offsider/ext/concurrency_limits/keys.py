"""Keys of jobs and rate limits: the options ``concurrency_key``, ``rate_key``, ``fair_by`` and ``rate_limit``.

A class has at most one key function. Its limits apply to each key separately: held jobs, slots and starts of one key
are a group. Keys are computed in the worker from the arguments, so jobs pushed by Ruby have them too.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from offsider.core.errors import InvalidOptions

if TYPE_CHECKING:
    from offsider.jobs.declared import Declared
    from offsider.runtime.context import JobContext

RATE_LIMIT = "rate_limit"
FAIR_BY = "fair_by"
KEY_OPTIONS = ("concurrency_key", "rate_key", FAIR_BY)
#: A longer key is stored as its digest.
MOST_CHARACTERS = 64
#: Each start within the window takes about 100 bytes.
MOST_STARTS = 10_000
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_RATE = re.compile(r"([1-9]\d{0,6})/(?:(second|minute|hour|day)|([1-9]\d{0,6})s?)")


def rate(value: object) -> str:
    """Return a rate limit as maximum starts and milliseconds, ``"100 60000"``; empty for None.

    Raises:
        InvalidOptions: the value is not a rate.
    """
    if value is None:
        return ""
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) > MOST_STARTS or int(match[3] or 1) > _UNITS["day"]:
        raise InvalidOptions(
            'a rate limit must be like "100/minute" (second, minute, hour or day), or "100/30" for 30 seconds, with 1 '
            f"to {MOST_STARTS:,} starts in up to a day; got {value!r}"
        )
    seconds = _UNITS[match[2]] if match[2] else int(match[3])
    return f"{match[1]} {seconds * 1000}"


def shown_rate(stored: str) -> str:
    """Return a rate limit for people, ``"100 in 0:01:00"``."""
    most, _, milliseconds = stored.partition(" ")
    return f"{most} in {timedelta(milliseconds=int(milliseconds))}"


def check_rate(value: object) -> None:
    """Raise InvalidOptions unless the value is a rate limit, or a function that returns one."""
    if not callable(value):
        rate(value)


def check_key(value: object) -> None:
    """Raise InvalidOptions unless the value is a function."""
    if not callable(value):
        raise InvalidOptions(
            f"a key must be a function of the job's arguments, such as lambda account_id: …; got {value!r}"
        )


class Key:
    """The key function of one class. It gets the arguments that its parameters name, or else all of them."""

    def __init__(self, job: Declared, given: Mapping[str, Callable[..., object]]) -> None:
        self._job = job
        self._options = " and ".join(given)
        self._is_one = len(given) == 1
        self._function = next(iter(given.values()))
        self._signature = inspect.Signature(job.signature.parameters)
        known = self._signature.parameters
        try:
            wanted = [*inspect.signature(self._function).parameters]
        except ValueError:  # some built-in functions have no signature
            wanted = []
        self._wanted = wanted if wanted and all(name in known for name in wanted) else None

    @classmethod
    def of(cls, job: Declared) -> Key | None:
        """Return the key function of a class; None without one."""
        given = {option: job.functions[option] for option in KEY_OPTIONS if option in job.functions}
        return cls(job, given) if given else None

    def __call__(self, run: JobContext) -> str:
        """Return the key of a job; empty for None.

        Raises:
            InvalidArguments: the stored arguments do not match the signature of the job.
            InvalidOptions: the class has several key functions, or the function failed or returned neither a string
                nor an int.
        """
        if not self._is_one:
            raise InvalidOptions(
                f"{self._job.name}: {self._options} exclude each other: a job has one key, and its rate limit and its "
                "concurrency limit apply to this key"
            )
        self._job.signature.check_fits(run.args, run.kwargs)
        try:
            found = self._call(*self._job.decoded(run.args, run.kwargs))
        except Exception as error:
            raise InvalidOptions(f"{self._job.name}: {self._options} raised {type(error).__name__}") from error
        if found is None:
            return ""
        if not isinstance(found, str | int) or found == "":
            raise InvalidOptions(
                f"{self._job.name}: {self._options} must return a string that is not empty, an int or None, "
                f"got a value of type {type(found).__name__}"
            )
        return stored_key(str(found))

    def _call(self, args: Any, kwargs: Mapping[str, Any]) -> object:
        if self._wanted is None:
            return self._function(*args, **kwargs)
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._function(*(bound.arguments[name] for name in self._wanted))


def stored_key(key: str) -> str:
    """Return the key as stored: a long one as its digest."""
    return key if len(key) <= MOST_CHARACTERS else hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
