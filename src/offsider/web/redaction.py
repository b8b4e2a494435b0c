"""What is shown of a job's arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from offsider.wiring.logs import describe, logger

#: Arguments as they may be shown: ``redact(job's name, args, kwargs)`` answers both.
Redact: TypeAlias = Callable[[str, list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]
HIDDEN = "[hidden]"
#: Fields of a payload that hold arguments once more: of unique jobs, and what request-wide values were.
_COPIES = re.compile(r"(unique_args|lock_args|display_args|cattr(_[0-9]+)?)")


def redacted(
    redact: Redact | None, name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as ``redact`` lets them be shown. When it fails nothing of them is.

    Bytes that are no job have no name that it could decide by, and stay hidden.
    """
    if redact is None:
        return args, kwargs
    if not name:
        return [HIDDEN], {}
    try:
        shown_args, shown_kwargs = redact(name, args, kwargs)
        return list(shown_args), dict(shown_kwargs)
    except Exception as error:  # noqa: BLE001  # the application's code; what it was to hide must stay hidden
        logger.warning("redact(%r, …) failed, so its arguments are hidden: %s", name, describe(error))
        return [HIDDEN], {}


def without_copies(redact: Redact | None, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload in which copies of the arguments are as ``redact`` lets them be shown.

    A copy is given to it as arguments when it is a list, else as the keyword argument of its field's name. What it
    leaves out is `HIDDEN`.
    """
    if redact is None:
        return dict(payload)
    return {
        field: _copy(redact, name, field, value) if _COPIES.fullmatch(field) else value
        for field, value in payload.items()
    }


def _copy(redact: Redact, name: str, field: str, value: object) -> Any:
    if isinstance(value, list):
        return redacted(redact, name, [*cast("Iterable[Any]", value)], {})[0]
    return redacted(redact, name, [], {field: value})[1].get(field, HIDDEN)
