"""The pushing side: a job takes its lock in the step that stores it, or is dropped and told of.

1. The name of the lock goes into the payload as ``idempotency_key``.
2. One script looks at the lock, stores the job, and gives it the lock. A push that fails has taken none, and a push
   that is repeated because nobody knows whether it arrived, with the same jid, is stored once.
3. A job that is refused leaves a line in the log of the pushing side, with ``job_status`` ``deduplicated`` and the
   jid of the holder as ``duplicate-of``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import InvalidOptions
from offsider.ext.unique import rules, store
from offsider.ext.unique.names import lock_name
from offsider.wiring.logs import write_info
from offsider.wiring.structured_log import about_payload

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.ext.unique.rules import Rule
    from offsider.storage.keys import Keys
    from offsider.storage.scripts import Argument, Call
    from offsider.wiring.config import Config
    from offsider.wiring.middleware import Push
    from offsider.wiring.push_guard import Storable

KEY = "idempotency_key"
DUPLICATE_OF = "duplicate-of"
#: Of a job that runs once more for dropped duplicates: the jid of the run before.
AGAIN = "rescheduled_once"


class Guard:
    """Stores unique jobs for the clients of a configuration.

    Args:
        config: whose clock tells how far off a job is.
        default_ttl_seconds: of locks of ``deduplicate``.
        across_queues: the same arguments in another queue are a duplicate as well.
    """

    def __init__(self, config: Config, *, default_ttl_seconds: float, across_queues: bool) -> None:
        self._config = config
        self._default_ttl_seconds = default_ttl_seconds
        self._across_queues = across_queues

    def concerns(self, payload: Mapping[str, Any]) -> bool:
        return rules.concerns(payload)

    def take(self, push: Push, at: float | None) -> bool:
        payload = cast("dict[str, Any]", push.payload)
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
        """How a job is locked. Raises InvalidOptions."""
        try:
            return rules.rule_of(payload, self._default_ttl_seconds)
        except ValueError as error:
            raise rules.invalid(payload["class"], error) from None

    def lock_name(self, payload: Mapping[str, Any]) -> str:
        """The name of a job's lock. Raises InvalidArguments."""
        return lock_name(payload, across_queues=self._across_queues)

    def call(self, keys: Keys, jobs: Sequence[Storable]) -> Call:
        first = jobs[0]
        later, now = first.at is not None, self._config.clock.now()
        replaces: object = cast("dict[str, Any]", first.payload).get(AGAIN)  # which is pushed alone
        arguments: list[Argument] = ["" if later else first.queue, replaces if isinstance(replaces, str) else ""]
        taken_ms = int(now * 1000)
        names = [store.index_key(keys), keys.queues, keys.schedule if later else keys.queue(first.queue)]
        for job in jobs:
            payload = cast("dict[str, Any]", job.payload)
            names.append(store.lock_key(keys, payload[KEY]))
            rule = cast("Rule", self.rule(payload))  # `take` has found one
            seconds = rule.ttl_seconds if job.at is None else rule.ttl_seconds + max(0.0, job.at - now)
            held = store.text(payload["jid"], payload["class"], taken_ms, may_run_again=rule.again)
            arguments += (round(seconds * 1000) or 1, held, job.raw, "" if job.at is None else job.at)
        return store.STORE, names, arguments

    def refused(self, jobs: Sequence[Storable], reply: Any) -> Sequence[int]:
        if reply is None:  # mostly
            return ()
        places = [place for place, holder in enumerate(reply) if holder]
        for place in places:
            self._tell(jobs[place].payload, reply[place].decode(errors="replace"))
        return places

    def _check_jid(self, payload: Mapping[str, Any]) -> None:
        jid: str = payload.get("jid", "")
        if not jid or " " in jid or not jid.isprintable():
            raise InvalidOptions(f"{payload['class']}: a unique job needs a jid without blanks, got {jid!r}")

    def _tell(self, payload: JobPayload, holder: str) -> None:
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
        except Exception as error:  # noqa: BLE001  # a filter or handler of the application that breaks is no job's fault
            self._config.handle_error(error, {"context": "the line of a deduplicated job"})
