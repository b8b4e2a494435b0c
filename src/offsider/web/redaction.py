"""Redaction of job arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from offsider.logs.setup import describe, logger

#: ``redact(name, args, kwargs)`` returns the arguments and keyword arguments to show.
Redact: TypeAlias = Callable[[str, list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]
HIDDEN = "[hidden]"
#: Payload fields with copies of arguments: of unique jobs, and of context variables.
_COPIES = re.compile(r"(unique_args|lock_args|display_args|cattr(_[0-9]+)?)")


def redacted(
    redact: Redact | None, name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments to show. If ``redact`` fails, all of them are hidden.

    Bytes that are not a job have no class name for ``redact``, so they are hidden too.
    """
    if redact is None:
        return args, kwargs
    if not name:
        return [HIDDEN], {}
    try:
        shown_args, shown_kwargs = redact(name, args, kwargs)
        return list(shown_args), dict(shown_kwargs)
    except Exception as error:  # noqa: BLE001  # application code failed; keep the arguments hidden
        logger.warning("redact(%r, …) failed, its arguments are hidden: %s", name, describe(error))
        return [HIDDEN], {}


def without_copies(redact: Redact | None, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload with redacted copies of the arguments.

    ``redact`` gets a list as arguments, and any other value as a keyword argument with the name of its field. Values
    that it omits are `HIDDEN`.
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
