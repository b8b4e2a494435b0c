"""Writes the first state of a tracked job in the script that stores the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.payload import shown_class
from offsider.ext.results import store

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.ext.results.rules import Rules
    from offsider.runtime.middleware import Push
    from offsider.storage.effects import Effect


class Pushes:
    """An entry of ``config.push_effects``."""

    def __init__(self, here: Installation, rules: Rules) -> None:
        self._here = here
        self._rules = rules

    def concerns(self, push: Push) -> bool:
        return self._rules.tracking(push.payload) is not None

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        now = self._here.config.clock.now()
        fields = {
            "state": "queued" if at is None else "scheduled",
            "class": shown_class(push.payload),
            "at": repr(now),
            **({} if at is None else {"due": repr(at)}),
        }
        life_seconds = self._rules.keep_waiting_seconds + (0.0 if at is None else max(0.0, at - now))
        keys = self._here.for_server(push.server).redis.keys if push.server else self._here.redis.keys
        return [store.queued(keys, push.payload.get("jid", ""), life_seconds, fields)]
