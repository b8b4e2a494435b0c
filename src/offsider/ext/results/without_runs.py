"""The states of tracked jobs that no run writes: at the push, at a move by an operator, and at an end without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.config import test_mode
from offsider.core.error_text import class_of, message_of
from offsider.core.errors import MalformedPayload, RedisFailure
from offsider.core.payload import decode, shown_class
from offsider.ext.results import store
from offsider.ext.results.rules import ARGUMENTS, KEEP_RESULT, TRACK, ResultSettings
from offsider.ext.results.store import SettledJob
from offsider.storage.effects import Effect, run_alone

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import State
    from offsider.core.payload import JobPayload
    from offsider.ext.results.rules import ResultSettings
    from offsider.runtime.events import JobPlaced, JobRemoved
    from offsider.runtime.middleware import Push
    from offsider.storage.keys import Keys
    from offsider.storage.scripts import Argument


class Pushes:
    """An entry of ``config.push_effects``."""

    def __init__(self, server: Installation, rules: ResultSettings) -> None:
        self._server = server
        self._rules = rules

    def concerns(self, push: Push) -> bool:
        return self._rules.tracking(push.payload) is not None

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        now = self._server.config.clock.now()
        fields: dict[str, Any] = {
            "state": "queued" if at is None else "scheduled",
            "class": shown_class(push.payload),
            "at": repr(now),
            **({} if at is None else {"due": repr(at)}),
        }
        if push.payload.get(TRACK) == ARGUMENTS:
            fields |= store.arguments_field(push.payload["args"], push.payload.get("kwargs") or {})
        if test_mode.current() is not None:
            test_mode.states[push.payload.get("jid", "")] = fields
        life_seconds = self._rules.keep_waiting_seconds + (0.0 if at is None else max(0.0, at - now))
        keys = self._server.for_server(push.server).redis.keys if push.server else self._server.redis.keys
        return [store.queued(keys, push.payload.get("jid", ""), life_seconds, fields)]


_OPTIONS = (f'"{TRACK}"'.encode(), f'"{KEEP_RESULT}"'.encode())


class Operations:
    """The states of stored jobs that are moved, or removed without a run."""

    def __init__(self, server: Installation, rules: ResultSettings) -> None:
        self._server = server
        self._rules = rules
        self._tracks_all = rules.tracking({}) is not None

    def install(self) -> None:
        self._server.config.move_effects.append(self._placed)
        self._server.config.removal_effects.append(self._removing)
        self._server.config.on("job_removed", self._replaced)

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

    def _replaced(self, news: JobRemoved) -> None:
        """Write the state of a debounced job that another push has replaced: its jid is not known before."""
        if news.how != "debounce":
            return
        try:
            run_alone(self._server.for_server(news.server).redis, self._removing(news))
        except RedisFailure as error:
            self._server.config.handle_error(
                error, {"context": "storing the state of a replaced job", "jobstr": news.raw}
            )

    def _tracked(self, raw: bytes) -> JobPayload | None:
        """Return the payload of a job; None if it is not tracked."""
        if not self._tracks_all and not any(option in raw for option in _OPTIONS):
            return None  # most jobs; keeps clearing a queue of a million fast
        try:
            payload = decode(raw)
        except MalformedPayload:
            return None
        return payload if self._is_tracked(payload) else None

    def _is_tracked(self, payload: JobPayload) -> bool:
        tracking = self._rules.tracking(cast("Mapping[str, Any]", payload))
        return tracking is not None and isinstance(payload.get("jid"), str)

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
