"""The states of tracked jobs that no run writes: at the push, and at an end without a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.core.error_text import class_of, message_of
from offsider.core.errors import MalformedPayload, PoisonPill, RedisFailure
from offsider.core.payload import decode, shown_class
from offsider.ext.results import store
from offsider.ext.results.rules import KEEP_RESULT, TRACK, Rules
from offsider.ext.results.store import Settled

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.core.job_id import State
    from offsider.core.payload import JobPayload
    from offsider.ext.results.rules import Rules
    from offsider.runtime.events import JobRemoved
    from offsider.runtime.middleware import Push
    from offsider.storage.effects import Effect
    from offsider.storage.scripts import Argument


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


_OPTIONS = (f'"{TRACK}"'.encode(), f'"{KEEP_RESULT}"'.encode())


class Removals:
    """Listens to removals of jobs from their queue or set, and to deaths of jobs that no worker could settle."""

    def __init__(self, here: Installation, rules: Rules) -> None:
        self._here = here
        self._rules = rules
        self._tracks_all = rules.tracking({}) is not None

    def install(self) -> None:
        self._here.config.on("job_removed", self._removed)
        self._here.config.death_handlers.append(self._died)

    def _removed(self, news: JobRemoved) -> None:
        if not self._tracks_all and not any(option in news.raw for option in _OPTIONS):
            return  # most jobs; keeps clearing a queue of a million fast
        try:
            payload = decode(news.raw)
        except MalformedPayload:
            return
        # A dead job has ended before, and the outcome of an expired one has written its state.
        if news.where not in ("dead", "quarantine") and news.how != "expire":
            self._write(payload, "dead" if news.how == "kill" else "discarded", {}, news.server)

    def _died(self, payload: JobPayload, error: BaseException | None) -> None:
        if isinstance(error, PoisonPill):
            about = {"error_class": class_of(error), "error_message": message_of(error)}
            self._write(payload, "dead", about, self._here.server)

    def _write(self, payload: JobPayload, state: State, fields: Mapping[str, Argument], server: str) -> None:
        jid, rules = payload.get("jid"), self._rules
        if rules.tracking(cast("Mapping[str, Any]", payload)) is None or not isinstance(jid, str):
            return
        redis, name = self._here.for_server(server).redis, shown_class(cast("Mapping[str, Any]", payload))
        new = Settled(
            state=state,
            ended=True,
            life_seconds=rules.keep_state_seconds,
            at=self._here.config.clock.now(),
            duration_ms=None,
            process="",
            fields=fields,
        )
        arguments = new.arguments(
            redis.keys,
            jid,
            name,
            most=rules.finished_per_class,
            list_life_seconds=rules.keep_state_seconds,
            only_known=True,
        )
        try:
            redis.run(store.SETTLE, store.settle_keys(redis.keys, jid, name), arguments)
        except RedisFailure as error:
            self._here.config.handle_error(error, {"context": "the state of a removed job", "job": payload})
