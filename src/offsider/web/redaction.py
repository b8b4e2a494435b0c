"""What is shown of a job's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from offsider.wiring.logs import describe, logger

#: Arguments as they may be shown: ``redact(job's name, args, kwargs)`` answers both.
Redact: TypeAlias = Callable[[str, list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]
HIDDEN = "[hidden]"


def redacted(
    redact: Redact | None, name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as ``redact`` lets them be shown. When it fails nothing of them is."""
    if redact is None:
        return args, kwargs
    try:
        shown_args, shown_kwargs = redact(name, args, kwargs)
        return list(shown_args), dict(shown_kwargs)
    except Exception as error:  # noqa: BLE001  # the application's code; what it was to hide must stay hidden
        logger.warning("redact(%r, …) failed, so its arguments are hidden: %s", name, describe(error))
        return [HIDDEN], {}
