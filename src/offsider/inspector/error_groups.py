"""Errors grouped by job class, error class and message, counted when they happen."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from offsider.storage import error_groups
from offsider.storage.error_groups import StoredGroup
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

_HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errors that are alike: their messages differ in numbers, ids and quoted values at most.

    Attributes:
        id: names the group in links.
        name: of the job class.
        error_class: what was raised.
        message: of the first one; a long one is cut.
        count: how many there were since `first_at`.
        first_at, last_at: epoch seconds.
        queue: of the first job.
        last_jid: of the last job.
        recent: beginning of an hour (epoch seconds) -> how many, for up to 48 hours.
    """

    id: str
    name: str
    error_class: str
    message: str
    count: int
    first_at: float
    last_at: float
    queue: str
    last_jid: str
    recent: Mapping[int, int]


class ErrorGroups:
    """The groups of one installation: 500 at most, each for 30 days after it was last seen.

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        config = config if config is not None else default_config()
        self._redis = config.shared_redis()

    def __len__(self) -> int:
        return len(error_groups.ids(self._redis))

    def page(
        self, start: int = 0, count: int = 50, *, order: Literal["count", "last_seen"] = "last_seen"
    ) -> list[ErrorGroup]:
        """Groups from ``start`` (0 is the first), those with the most errors or the last seen ones first."""
        ids = error_groups.ids(self._redis)
        if order == "last_seen":
            return [_group(stored) for stored in error_groups.read(self._redis, ids[start : start + count])]
        read = sorted(error_groups.read(self._redis, ids), key=lambda stored: -stored.count)
        return [_group(stored) for stored in read[start : start + count]]

    def find(self, group_id: str) -> ErrorGroup | None:
        """The group of this id; None when it is not there any more."""
        ids = [found for found in error_groups.ids(self._redis) if found[0] == group_id]
        return next((_group(stored) for stored in error_groups.read(self._redis, ids)), None)

    def delete(self, group_id: str) -> bool:
        """Forget a group, until such an error happens again. False when it was gone."""
        return bool(error_groups.delete(self._redis, [group_id]))

    def clear(self) -> int:
        """Forget all groups, and answer how many there were."""
        return error_groups.clear(self._redis)


def _group(stored: StoredGroup) -> ErrorGroup:
    info = _info(stored.info)
    text: Callable[[str], str] = lambda key: str(info.get(key, ""))  # noqa: E731  # three times below, and nowhere else
    return ErrorGroup(
        id=stored.id,
        name=text("class"),
        error_class=text("error_class"),
        message=text("message"),
        count=stored.count,
        first_at=stored.first_at,
        last_at=stored.last_at,
        queue=text("queue"),
        last_jid=stored.jid,
        recent={hour * _HOUR_SECONDS: count for hour, count in sorted(stored.hours.items())},
    )


def _info(raw: bytes) -> dict[str, Any]:
    try:
        info: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", info) if isinstance(info, dict) else {}
