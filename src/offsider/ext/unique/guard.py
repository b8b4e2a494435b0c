"""The push guard: a job takes its lock in the step that stores it, or is dropped and logged.

1. The payload gets the name of the lock as ``idempotency_key``.
2. One script checks the lock, stores the job and takes the lock. A failed push takes no lock. A push that is repeated
   after a lost reply, with the same jid, is stored once.
3. ``debounce`` delays the job; in the same script, it replaces the job that waits under the same name.
4. A dropped job leaves a log line in the pushing process, with ``job_status`` ``deduplicated`` and the jid of the
   lock's holder as ``duplicate-of``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from offsider.client.prepared import declared_of
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, RedisFailure
from offsider.ext.unique import locks, rules
from offsider.inspector import removal
from offsider.logs.setup import write_info
from offsider.logs.structured import about_payload
from offsider.runtime.events import JobRemoved
from offsider.storage.effects import run_alone
from offsider.storage.scripts import Script

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.hooks import Prepared
    from offsider.core.payload import JobPayload
    from offsider.ext.unique.rules import UniqueRule
    from offsider.runtime.middleware import Push
    from offsider.storage.keys import Keys
    from offsider.storage.scripts import Argument, Call

STORE = Script("store", files("offsider.ext.unique") / "lua")
KEY = "idempotency_key"
DUPLICATE_OF = "duplicate-of"
#: The jid of the previous run, in a job that runs once more because duplicates were dropped.
RESCHEDULED_ONCE = "rescheduled_once"
#: How late the scheduler may be and a debounced job is still replaced.
LATE_SECONDS = 60.0


class Guard:
    """Store unique jobs for the clients of a configuration.

    Args:
        config: its clock measures the delay of scheduled jobs.
        default_ttl_seconds: life of the locks of jobs without ``unique_for``.
        across_queues: the same arguments in another queue are a duplicate.
    """

    def __init__(self, config: Config, *, default_ttl_seconds: float, across_queues: bool) -> None:
        self._config = config
        self._default_ttl_seconds = default_ttl_seconds
        self._across_queues = across_queues

    def concerns(self, push: Push) -> bool:
        payload = cast("dict[str, Any]", push.payload)
        return rules.concerns(payload) or _default_until(push) is not None

    def take(self, push: Push, at: float | None) -> bool:
        payload = cast("dict[str, Any]", push.payload)
        until = _default_until(push)
        if until is not None:
            payload[rules.UNIQUE_UNTIL] = until
        if not rules.concerns(payload):
            return False
        rule = self._rule(payload)
        if rule is None or (at is not None and not rule.scheduled):
            return False
        if payload.get("encrypt") and rule.kind != "unique":
            raise InvalidOptions(f"{payload['class']}: {rule.kind} and encrypt exclude each other")
        self._check_jid(payload)
        rules.store_durations(payload)
        name = self._lock_name(payload, rule)
        if rule.kind == "unique":  # other locks are not freed by a run
            payload[KEY] = name
        return True

    def due(self, push: Push, now: float) -> float | None:
        payload = cast("dict[str, Any]", push.payload)
        rule = self._rule(payload) if payload.get(rules.DEBOUNCE) else None
        return None if rule is None else now + rule.ttl_seconds

    def _rule(self, payload: Mapping[str, Any]) -> UniqueRule | None:
        try:
            return rules.rule_of(payload, self._default_ttl_seconds)
        except ValueError as error:
            raise InvalidOptions(f"{payload['class']}: {error}") from None

    def _lock_name(self, payload: Mapping[str, Any], rule: UniqueRule) -> str:
        is_debounced = rule.kind == "debounce"
        return rules.lock_name(payload, self._config, across_queues=self._across_queues, any_arguments=is_debounced)

    def call(self, keys: Keys, jobs: Sequence[Prepared]) -> Call:
        first = jobs[0]
        later, now = first.at is not None, self._config.clock.now()
        replaces: object = cast("dict[str, Any]", first.payload).get(RESCHEDULED_ONCE)  # such a job is pushed alone
        arguments: list[Argument] = ["" if later else first.queue, replaces if isinstance(replaces, str) else ""]
        taken_ms = int(now * 1000)
        names = [locks.index_key(keys), keys.queues, keys.schedule if later else keys.queue(first.queue)]
        for job in jobs:
            payload = cast("dict[str, Any]", job.payload)
            rule = cast("UniqueRule", self._rule(payload))  # `take` found it
            names.append(self._key(keys, payload, rule))
            delay_seconds = 0.0 if job.at is None else max(0.0, job.at - now)
            seconds = min(rule.ttl_seconds + delay_seconds, rules.MAX_SECONDS)
            held: Argument = locks.value_of(payload["jid"], payload["class"], taken_ms, may_run_again=rule.again)
            if rule.kind == "throttle":
                seconds = rule.ttl_seconds
            elif rule.kind == "debounce":
                seconds, held = delay_seconds + LATE_SECONDS, job.raw
            due: Argument = "" if job.at is None else job.at
            arguments += (round(seconds * 1000) or 1, held, job.raw, due, rule.kind)
        return STORE, names, arguments

    def refused(self, jobs: Sequence[Prepared], reply: Any) -> Sequence[int]:
        if reply is None:  # the usual case
            return ()
        places: list[int] = []
        for place, note in enumerate(reply):
            if note.startswith(b"\0"):
                self._replaced(note[1:], jobs[place].server)
            elif note:
                self._log(jobs[place].payload, note.decode(errors="replace"))
                places.append(place)
        return places

    def _key(self, keys: Keys, payload: Mapping[str, Any], rule: UniqueRule) -> str:
        name = payload[KEY] if rule.kind == "unique" else self._lock_name(payload, rule)
        return locks.lock_key(keys, name, rule.kind)

    def _check_jid(self, payload: Mapping[str, Any]) -> None:
        jid: str = payload.get("jid", "")
        if not jid or " " in jid or not jid.isprintable():
            raise InvalidOptions(f"{payload['class']}: a unique job needs a jid without spaces, got {jid!r}")

    def _replaced(self, raw: bytes, server_name: str) -> None:
        """Run the effects of the removal of a debounced job, which the script cannot know before, and report it."""
        server = Installation.of(self._config, server_name)
        news = JobRemoved(raw, "schedule", "debounce", server.name)
        try:
            run_alone(server.redis, removal.effects_of(server, news))
        except RedisFailure as error:
            self._config.handle_error(error, {"context": "removing a replaced job", "jobstr": raw})
        self._config.events.emit("job_removed", news)

    def _log(self, payload: JobPayload, holder: str) -> None:
        fields = {"job_status": "deduplicated", **about_payload(payload), DUPLICATE_OF: holder}
        lock, why = cast("dict[str, Any]", payload).get(KEY), f"throttled: {holder} was pushed before"
        if lock is not None:
            fields[KEY], why = lock, f"deduplicated: {holder} holds its lock"
        try:
            write_info(f"{payload['class']} JID-{payload.get('jid', '')}: {why}", fields)
        except Exception as error:  # noqa: BLE001  # a broken logging filter or handler must not fail the push
            self._config.handle_error(error, {"context": "logging a deduplicated job"})


def _default_until(push: Push) -> object:
    """Return the ``unique_until`` of a declared job; None if it has none."""
    job = declared_of(push.job)
    return None if job is None else job.characteristics.unique_until(cast("dict[str, Any]", push.payload))
