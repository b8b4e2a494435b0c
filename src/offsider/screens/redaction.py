"""Redaction of job arguments, and of the texts that may quote them.

`redact` only sees arguments. A text of the same job, such as its error message, can quote what `redact` hides, so pages
hide it too. Texts that come without the arguments are hidden while there is a `redact`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from offsider.config.web_tab import Redact as Redact  # noqa: PLC0414  # a public name of this module
from offsider.core.error_text import describe
from offsider.logs.setup import logger

HIDDEN = "[hidden]"
_SHORT_NUMBER = 2
#: With more hidden texts than this, all texts that may contain one are hidden: the search would take too long.
_MAX_SECRETS = 1_000
#: Payload fields with copies of arguments: of unique jobs, and of context variables.
_COPIES = re.compile(r"(unique_args|lock_args|display_args|cattr(_[0-9]+)?)")


def redacted(
    redact: Redact | None, name: str, args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments to show. If ``redact`` fails, all of them are hidden.

    ``redact`` gets copies, because it may change them in place. Bytes that are not a job have no class name for it, so
    they are hidden too.
    """
    if redact is None:
        return args, kwargs
    if not name:
        return [HIDDEN], {}
    try:
        shown_args, shown_kwargs = redact(name, deepcopy(args), deepcopy(kwargs))
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


@dataclass(frozen=True)
class Redacted:
    """What pages show of one job.

    Attributes:
        args, kwargs: the arguments to show.
        changed: whether ``redact`` has hidden something.
        secrets: the texts and numbers that it has hidden; None if they are too many to search for, or unknown.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    changed: bool
    secrets: frozenset[str] | None

    @classmethod
    def of(cls, redact: Redact | None, name: str, args: list[Any], kwargs: dict[str, Any]) -> Redacted:
        shown_args, shown_kwargs = redacted(redact, name, args, kwargs)
        if (shown_args, shown_kwargs) == (args, kwargs):
            return cls(args, kwargs, changed=False, secrets=frozenset())
        secrets = frozenset(_leaves([args, kwargs])) - frozenset(_leaves([shown_args, shown_kwargs]))
        return cls(shown_args, shown_kwargs, changed=True, secrets=secrets if len(secrets) <= _MAX_SECRETS else None)

    def message(self, text: str) -> str:
        """Return a free text about a run; `HIDDEN` if it may quote a hidden argument, even in part."""
        return HIDDEN if text and self.changed else text

    def value(self, value: Any) -> Any:
        """Return a value of the payload; texts in it that contain a hidden text or number are `HIDDEN`."""
        if not self.changed:
            return value
        if isinstance(value, list):
            return [self.value(each) for each in cast("Iterable[Any]", value)]
        if isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            return {self.value(name): self.value(each) for name, each in named.items()}
        if self.secrets is None:
            return HIDDEN if any(_leaves(value)) else value
        if isinstance(value, str):
            return HIDDEN if any(secret in value for secret in self.secrets) else value
        return HIDDEN if self.secrets.intersection(_leaves(value)) else value


def _leaves(value: object) -> Iterator[str]:
    """Yield the texts and numbers of a value; no short numbers, which are in other texts by chance."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[object, object]", value).items():
            yield str(name)
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        for each in cast("Iterable[Any]", value):
            yield from _leaves(each)
    elif isinstance(value, str) and value:
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool) and len(str(value)) > _SHORT_NUMBER:
        yield str(value)
