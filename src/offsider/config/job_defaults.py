"""The default options of all jobs: the table ``[jobs]`` of a file, ``config.jobs`` in code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from types import MappingProxyType
from typing import Any

from offsider.config import validators
from offsider.config.containers import frozen_error
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.options import TRANSIENT, check_options, wire_options

WHERE = "jobs (default options)"


def from_text(key: str, text: str) -> object:
    """Parse the text of an environment variable for `JobDefaults.assign`."""
    return TEXTUAL.get(key, str)(text)


def _flag(text: str) -> object:
    return validators.FLAG.parse(text) if text.strip() else text


def _flag_or_whole(text: str) -> object:
    number = validators.whole(0).parse(text)
    return number if isinstance(number, int) else _flag(text)


def _seconds(text: str) -> object:
    number = validators.seconds().parse(text)
    return int(number) if isinstance(number, float) and number.is_integer() else number


# The options that a text can set, with their parsers.
TEXTUAL: Mapping[str, Callable[[str], object]] = {
    "queue": str,
    "retry": _flag_or_whole,
    "retry_for": _seconds,
    "retry_queue": str,
    "dead": _flag,
    "backtrace": _flag_or_whole,
    "log_level": str,
    "expires_in": _seconds,
    "soft_timeout": _seconds,
    "hard_timeout": _seconds,
    "codec": str,
}

#: Options that are not stored, and whose defaults are read.
_READ_HERE = frozenset({"codec", "extra"})


class JobDefaults(MutableMapping[str, Any]):
    """Default options of all jobs. Initially ``retry = true`` and ``queue = "default"``, as in Sidekiq."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {"retry": True, "queue": "default"}
        self._frozen = False
        self._stored: Mapping[str, Any] | None = None

    @property
    def stored(self) -> Mapping[str, Any]:
        """The defaults in payload format; the same object until a default changes."""
        if self._stored is None:
            self._stored = MappingProxyType(wire_options(self._options))
        return self._stored

    def __getitem__(self, key: str) -> Any:
        return self._options[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.assign(key, value)

    def assign(self, key: str, value: Any, *, origin: str = "") -> None:
        """Set one default.

        Raises:
            ConfigurationError: the value is invalid, or the worker has been launched. Unknown keys are found by
                `check`, at the freeze and at a push, because extensions may add options.
        """
        self._check_open()
        where = f"{origin}: {WHERE}" if origin else WHERE
        if key in TRANSIENT and key not in _READ_HERE:
            raise ConfigurationError(
                f"{where}: {key!r} has no default for all jobs; give it to @job(...) or using(...)"
            )
        try:
            check_options({key: value}, job_name=where, known_extra=[key])
        except InvalidOptions as error:
            raise ConfigurationError(str(error)) from None
        self._options[key] = value
        self._stored = None

    def check(self, known_extra: Collection[str]) -> None:
        """Raise ConfigurationError if an option is unknown or two of them conflict."""
        try:
            self.check_for_push(known_extra)
        except InvalidOptions as error:
            raise ConfigurationError(str(error)) from None

    def check_for_push(self, known_extra: Collection[str]) -> None:
        """Do the same with InvalidOptions, for processes that only push and therefore never freeze."""
        check_options(self._options, job_name=WHERE, known_extra=known_extra)

    def freeze(self) -> None:
        self._frozen = True

    def __delitem__(self, key: str) -> None:
        self._check_open()
        del self._options[key]
        self._stored = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return f"JobDefaults({self._options!r})"

    def _check_open(self) -> None:
        if self._frozen:
            raise frozen_error("config.jobs")
