"""Keys of jobs: the option ``key=`` of a job, by which its limits apply.

The function is called in the worker with the arguments, so jobs pushed by Ruby have keys too.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offsider.core.errors import InvalidOptions

if TYPE_CHECKING:
    from offsider.jobs.declared import Declared
    from offsider.runtime.context import JobContext

OPTION = "key"
#: A longer key is stored as its digest.
MAX_CHARACTERS = 64


def check_key(value: object) -> None:
    """Raise InvalidOptions unless the value is a function."""
    if not callable(value):
        raise InvalidOptions(
            f"a key must be a function of the job's arguments, such as lambda account_id: …; got {value!r}"
        )


class Key:
    """The key function of one class. It gets the arguments that its parameters name, or else all of them."""

    def __init__(self, job: Declared) -> None:
        self._job = job
        self._function = job.functions[OPTION]
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
        return cls(job) if OPTION in job.functions else None

    def __call__(self, run: JobContext) -> str:
        """Return the key of a job; empty for None.

        Raises:
            InvalidArguments: the stored arguments do not match the signature of the job.
            InvalidOptions: the function failed or returned neither a string nor an int.
        """
        self._job.signature.check_fits(run.args, run.kwargs)
        try:
            found = self._call(*self._job.decoded(run.args, run.kwargs))
        except Exception as error:
            raise InvalidOptions(f"{self._job.name}: its key raised {type(error).__name__}") from error
        if found is None:
            return ""
        if not isinstance(found, str | int) or found == "":
            raise InvalidOptions(
                f"{self._job.name}: its key must be a string that is not empty, an int or None, "
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
    return key if len(key) <= MAX_CHARACTERS else hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
