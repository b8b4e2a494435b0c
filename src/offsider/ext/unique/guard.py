"""The push guard: a job takes its lock in the step that stores it, or is dropped and logged.

1. The payload gets the name of the lock as ``idempotency_key``.
2. One script checks the lock, stores the job and takes the lock. A failed push takes no lock. A push that is repeated
   after a lost reply, with the same jid, is stored once.
3. A dropped job leaves a log line in the pushing process, with ``job_status`` ``deduplicated`` and the jid of the
   lock's holder as ``duplicate-of``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.client.prepared import declared_of
from offsider.core.errors import InvalidOptions
from offsider.ext.unique import rules, store
from offsider.ext.unique.names import lock_name
from offsider.logs.setup import write_info
from offsider.logs.structured import about_payload

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.push_guard import Storable
    from offsider.core.payload import JobPayload
    from offsider.ext.unique.rules import Rule
    from offsider.runtime.middleware import Push
    from offsider.storage.keys import Keys
    from offsider.storage.scripts import Argument, Call

KEY = "idempotency_key"
DUPLICATE_OF = "duplicate-of"
#: The jid of the previous run, in a job that runs once more because duplicates were dropped.
AGAIN = "rescheduled_once"


class Guard:
    """Store unique jobs for the clients of a configuration.

    Args:
        config: its clock measures the delay of scheduled jobs.
        default_ttl_seconds: default life of locks of ``deduplicate``.
        across_queues: the same arguments in another queue are a duplicate.
    """

    def __init__(self, config: Config, *, default_ttl_seconds: float, across_queues: bool) -> None:
        self._config = config
        self._default_ttl_seconds = default_ttl_seconds
        self._across_queues = across_queues

    def concerns(self, push: Push) -> bool:
        payload = cast("dict[str, Any]", push.payload)
        return rules.concerns(payload) or _deduplication(push) is not None

    def take(self, push: Push, at: float | None) -> bool:
        payload = cast("dict[str, Any]", push.payload)
        deduplication = _deduplication(push)
        if deduplication is not None:
            payload[rules.DEDUPLICATE] = deduplication
        if not rules.concerns(payload):
            return False
        rule = self.rule(payload)
        if rule is None or (at is not None and not rule.scheduled):
            return False
        self._check_jid(payload)
        rules.store_durations(payload)
        payload[KEY] = self.lock_name(payload)
        return True

    def rule(self, payload: Mapping[str, Any]) -> Rule | None:
        """Return the rule of a job. Raises InvalidOptions."""
        try:
            return rules.rule_of(payload, self._default_ttl_seconds)
        except ValueError as error:
            raise rules.invalid(payload["class"], error) from None

    def lock_name(self, payload: Mapping[str, Any]) -> str:
        """Return the name of a job's lock. Raises InvalidArguments."""
        return lock_name(payload, across_queues=self._across_queues)

    def call(self, keys: Keys, jobs: Sequence[Storable]) -> Call:
        first = jobs[0]
        later, now = first.at is not None, self._config.clock.now()
        replaces: object = cast("dict[str, Any]", first.payload).get(AGAIN)  # such a job is pushed alone
        arguments: list[Argument] = ["" if later else first.queue, replaces if isinstance(replaces, str) else ""]
        taken_ms = int(now * 1000)
        names = [store.index_key(keys), keys.queues, keys.schedule if later else keys.queue(first.queue)]
        for job in jobs:
            payload = cast("dict[str, Any]", job.payload)
            names.append(store.lock_key(keys, payload[KEY]))
            rule = cast("Rule", self.rule(payload))  # `take` found it
            seconds = rule.ttl_seconds if job.at is None else rule.ttl_seconds + max(0.0, job.at - now)
            held = store.text(payload["jid"], payload["class"], taken_ms, may_run_again=rule.again)
            arguments += (round(seconds * 1000) or 1, held, job.raw, "" if job.at is None else job.at)
        return store.STORE, names, arguments

    def refused(self, jobs: Sequence[Storable], reply: Any) -> Sequence[int]:
        if reply is None:  # the usual case
            return ()
        places = [place for place, holder in enumerate(reply) if holder]
        for place in places:
            self._log(jobs[place].payload, reply[place].decode(errors="replace"))
        return places

    def _check_jid(self, payload: Mapping[str, Any]) -> None:
        jid: str = payload.get("jid", "")
        if not jid or " " in jid or not jid.isprintable():
            raise InvalidOptions(f"{payload['class']}: a unique job needs a jid without spaces, got {jid!r}")

    def _log(self, payload: JobPayload, holder: str) -> None:
        fields = {
            "job_status": "deduplicated",
            **about_payload(payload),
            KEY: cast("dict[str, Any]", payload)[KEY],
            DUPLICATE_OF: holder,
        }
        try:
            write_info(
                f"{payload['class']} JID-{payload.get('jid', '')}: deduplicated: {holder} holds its lock", fields
            )
        except Exception as error:  # noqa: BLE001  # a broken logging filter or handler must not fail the push
            self._config.handle_error(error, {"context": "logging a deduplicated job"})


def _deduplication(push: Push) -> object:
    """Return the default option of a declared job; None if it has none."""
    job = declared_of(push.job)
    return None if job is None else job.characteristics.deduplication(cast("dict[str, Any]", push.payload))
