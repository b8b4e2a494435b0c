"""The states of tracked jobs that no run writes: at the push, at a move by an operator, and at an end without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.config import test_mode
from offsider.core.error_text import class_of, message_of
from offsider.core.payload import decode_or_none, encode_text, shown_class
from offsider.ext.results import store
from offsider.ext.results.store import ARGUMENTS, KEEP_RESULT, TRACK, ResultSettings, SettledJob
from offsider.storage.effects import Effect

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import State
    from offsider.core.payload import JobPayload
    from offsider.runtime.events import JobPlaced, JobRemoved
    from offsider.runtime.middleware import Push
    from offsider.storage.keys import Keys
    from offsider.storage.scripts import Argument


_OPTIONS = (f'"{TRACK}"'.encode(), f'"{KEEP_RESULT}"'.encode())


class WithoutRuns:
    """The states of jobs that are pushed, moved, or removed without a run."""

    def __init__(self, server: Installation, rules: ResultSettings) -> None:
        self._server = server
        self._rules = rules
        self._tracks_all = rules.kept_seconds({}) is not None

    def install(self) -> None:
        self._server.config.push_effects.append(self)
        self._server.config.move_effects.append(self._placed)
        self._server.config.removal_effects.append(self._removing)

    def concerns(self, push: Push) -> bool:
        return self._rules.kept_seconds(push.payload) is not None

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        now = self._server.config.clock.now()
        fields: dict[str, Any] = {
            "state": "queued" if at is None else "scheduled",
            "class": shown_class(push.payload),
            "at": repr(now),
            **({} if at is None else {"due": repr(at)}),
        }
        if push.payload.get(TRACK) == ARGUMENTS:
            fields["arguments"] = encode_text([push.payload["args"], push.payload.get("kwargs") or {}])
        if test_mode.current() is not None:
            test_mode.states[push.payload.get("jid", "")] = fields
        life_seconds = self._rules.keep_waiting_seconds + (0.0 if at is None else max(0.0, at - now))
        keys = self._server.for_server(push.server).redis.keys if push.server else self._server.redis.keys
        return [store.queued(keys, push.payload.get("jid", ""), life_seconds, fields)]

    def _placed(self, news: JobPlaced) -> Sequence[Effect]:
        """Write the state of a job that waits again, or until another time, in the script that moves it."""
        payload = None if news.to == "dead" else self._tracked(news.raw)
        if payload is None:
            return ()
        state: State = "scheduled" if news.to == "schedule" else "retrying" if news.to == "retry" else "queued"
        life_seconds = self._rules.keep_waiting_seconds + max(0.0, news.at - self._server.config.clock.now())
        fields = {"due": repr(news.at)} if state == "scheduled" else {}
        redis = self._server.for_server(news.server).redis
        return [self._settling(redis.keys, payload, state, life_seconds, fields, ended=False)]

    def _removing(self, news: JobRemoved) -> Sequence[Effect]:
        """Write the state of a job in the script that removes it."""
        payload = self._tracked(news.raw)
        if payload is None or news.where in ("dead", "quarantine"):  # it has ended before
            return ()
        error, life_seconds = news.error, self._rules.keep_state_seconds
        about = {} if error is None else {"error_class": class_of(error), "error_message": message_of(error)}
        state: State = "dead" if news.how == "kill" else "discarded"
        redis = self._server.for_server(news.server).redis
        return [self._settling(redis.keys, payload, state, life_seconds, about, ended=True)]

    def _tracked(self, raw: bytes) -> JobPayload | None:
        """Return the payload of a job; None if it is not tracked."""
        if not self._tracks_all and not any(option in raw for option in _OPTIONS):
            return None  # most jobs; keeps clearing a queue of a million fast
        payload = decode_or_none(raw)
        if payload is None:
            return None
        is_tracked = self._rules.kept_seconds(cast("Mapping[str, Any]", payload)) is not None
        return payload if is_tracked and isinstance(payload.get("jid"), str) else None

    def _settling(
        self,
        keys: Keys,
        payload: JobPayload,
        state: State,
        life_seconds: float,
        fields: Mapping[str, Argument],
        *,
        ended: bool,
    ) -> Effect:
        """Return the effect that writes this state of a tracked job. Of an ended one, only if it has a state."""
        jid, name = payload.get("jid", ""), shown_class(cast("Mapping[str, Any]", payload))
        new = SettledJob(
            state=state,
            ended=ended,
            life_seconds=life_seconds,
            at=self._server.config.clock.now(),
            duration_ms=None,
            process="",
            fields=fields,
        )
        return store.settling(keys, jid, name, new.arguments(keys, jid, name, self._rules, only_known=ended))
