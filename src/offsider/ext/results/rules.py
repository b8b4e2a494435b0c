"""Which jobs are tracked, and for how long their state and result are kept.

The options of the job, as its payload has them, precede the defaults of the extension. A job that keeps its result is
tracked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from offsider.core.errors import ConfigurationError
from offsider.core.wording import shown

TRACK, KEEP_RESULT = "track", "keep_result"
#: The value of ``track`` that stores the arguments, too.
ARGUMENTS = "arguments"
_MAX_SECONDS = 366 * 86_400.0


def check_track(value: object) -> None:
    """Raise ValueError unless the value is a bool or `ARGUMENTS`."""
    if not isinstance(value, bool) and value != ARGUMENTS:
        raise ValueError(f'must be True, False or "{ARGUMENTS}", got {value!r}')


def check_keep_result(value: object) -> None:
    """Raise ValueError unless the value is a duration of at most 366 days, or False."""
    seconds(value)


def seconds(value: object) -> float | None:
    """Return a duration in seconds; None for False or None. Raises ValueError."""
    if value is None or value is False:
        return None
    number = value.total_seconds() if isinstance(value, timedelta) else value
    fits = isinstance(number, int | float) and not isinstance(number, bool)
    if not fits or not 0 < number <= _MAX_SECONDS:  # type: ignore[operator]
        raise ValueError(f"must be seconds or a timedelta, above 0 and up to 366 days, or False, got {shown(value)}")
    return float(number)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ResultSettings:
    """The settings of the extension.

    Attributes:
        track: whether jobs without the option are tracked.
        keep_result_seconds: for jobs without the option; None: their results are not kept.
        keep_state_seconds: life of the state of a job that has ended and does not keep its result.
        keep_waiting_seconds: life of the state of a job that waits or runs, after its last change, or after it is due.
        result_max_bytes: maximum size of a result.
        finished_per_class: maximum number of finished jobs listed for a class.
    """

    track: bool
    keep_result_seconds: float | None
    keep_state_seconds: float
    keep_waiting_seconds: float
    result_max_bytes: int
    finished_per_class: int

    def tracking(self, payload: Mapping[str, Any]) -> Tracking | None:
        """Return how a job is tracked; None if it is not. Unusable options of other programs are ignored."""
        track = payload.get(TRACK)
        given = payload.get(KEEP_RESULT)
        if given is None:
            kept = None if track is False else self.keep_result_seconds
        else:
            try:
                kept = seconds(given)
            except ValueError:
                kept = None
        if kept is None and not (self.track if track is None else track is True or track == ARGUMENTS):
            return None
        return Tracking(kept)


@dataclass(frozen=True, slots=True)
class Tracking:
    """How one job is tracked.

    Attributes:
        keep_result_seconds: None if its result is not kept.
    """

    keep_result_seconds: float | None


def life(name: str, value: float | timedelta) -> float:
    """Return a duration among the arguments of the extension. Raises ConfigurationError."""
    try:
        checked = seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"Results({name}=…): {error}") from None
    if checked is None:
        raise ConfigurationError(f"Results({name}=…): must be a duration, got {value!r}")
    return checked


def size(name: str, value: int) -> int:
    """Return a size among the arguments of the extension. Raises ConfigurationError."""
    if type(value) is not int or value < 1:
        raise ConfigurationError(f"Results({name}=…): must be a whole number above 0, got {value!r}")
    return value
