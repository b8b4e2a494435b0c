"""Outcomes of members and callbacks, in the script that writes them.

============================================  =========================================================
outcome of the run                            effect on the batch
============================================  =========================================================
succeeded, skipped or expired                 the member has succeeded
failed, will be retried                       the member has run
died, discarded, or failed without a retry    the member died
skipped because it was cancelled              the member died
rescheduled, interrupted, stranded, deferred  none
============================================  =========================================================

A member that is removed without a run (deleted, killed, quarantined, dropped by a control, a poison pill, stranded for
too long) counts as died, in the script that removes it. It may still succeed later, for example after an operator
retried it. A debounced member that another push replaces is no member any more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from offsider.config.installation import Installation
from offsider.core.error_text import MAX_CLASS_CHARACTERS, message_of
from offsider.core.errors import RedisFailure
from offsider.core.outcome import Failed, Rescheduled
from offsider.core.payload import decode_or_none
from offsider.ext.batches import steps, store
from offsider.ext.batches.block import check_member
from offsider.ext.batches.store import BID, CALLBACK_OF, Lives, lineages
from offsider.logs.structured import about_running

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.outcome import Destination, Outcome
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import JobRemoved
    from offsider.runtime.middleware import Middleware, Push
    from offsider.storage.effects import Effect

logger = logging.getLogger("offsider")

REFUSED_SECONDS = 10.0
_SUCCESSES = frozenset({"succeeded", "skipped", "expired"})
_KEYS_BYTES = tuple(f'"{key}"'.encode() for key in (BID, CALLBACK_OF))


class BatchRuns:
    """The effects of pushes, the admission of members and callbacks, and the effects of removals without a run."""

    def __init__(self, config: Config) -> None:
        self._config = config
        # Settings are final when the first job runs.
        self._outcomes = lru_cache(1_000)(self._read_outcomes)
        self._joining = lru_cache(1_000)(self._read_joining)

    def install(self) -> None:
        self._config.push_effects.append(self)
        self._config.removal_effects.append(self._removing)
        self._config.admissions.prepend(self.admit)  # an outcome of another admission must not go unnoticed

    def concerns(self, push: Push) -> bool:
        return BID in push.payload

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        """Add members to their batch."""
        del at
        payload = cast("Mapping[str, Any]", push.payload)
        bid = payload[BID]
        if not isinstance(bid, str) or not isinstance(payload.get("jid"), str):
            return ()
        check_member(payload)
        return self._joining(push.server, bid)

    def admit(self, job: JobContext) -> Middleware:
        """Add the effect of the outcome."""
        payload = cast("Mapping[str, Any]", job.payload)
        bid, is_member = _batch_of(payload)
        if not bid or not job.process:
            yield
            return None
        try:
            outcomes = self._outcomes(bid)
            if outcomes is not None and ("interrupted_count" in payload or "retry_count" in payload):
                self._abandon(outcomes.lineage, job)
            follow = steps.following(self._server, job, bid) if steps.FOLLOWED in payload else None
        except RedisFailure as error:
            self._config.handle_error(error, {"context": "reading the batch of a job", "job": job.payload})
            return Rescheduled(REFUSED_SECONDS, "cannot read its batch")
        if outcomes is not None:

            def chosen(outcome: Outcome, goes: Destination) -> Sequence[Effect] | None:
                cancelled = outcome.name == "skipped" and job.cancelled
                event = _event(outcome, goes, is_member=is_member, cancelled=cancelled)
                if event == "succeeded":  # most runs
                    return outcomes.succeeded
                about = f"{job.name}: {_kind(outcome.error)}" if isinstance(outcome, Failed) else job.name
                if cancelled:
                    about = f"{job.name}: cancelled"
                return None if event is None else (outcomes.other(event, job.jid, about),)

            job.effects += (outcomes.effect(chosen), *([follow] if follow is not None else []))
        yield
        return None

    def _abandon(self, lineage: store.Lineage, job: JobContext) -> None:
        """Delete the children that an earlier run of the job left half filled: nothing would ever close them."""
        for child in store.abandon(self._server.redis, lineage, job.jid):
            logger.warning(
                "%s JID-%s: deleted batch %s, which an interrupted run left incomplete; its jobs run without a batch",
                job.name,
                job.jid,
                child,
                extra={"fields": about_running(job)},
            )

    def _read_outcomes(self, bid: str, server: str = "") -> store.Outcomes | None:
        """Return the calls for the members of a batch; None if it does not exist. Raises RedisFailure."""
        installation = Installation.of(self._config, server)
        lineage = lineages(installation).of(bid)
        return store.outcomes(installation.redis.keys.prefix, lineage, Lives.of(self._config)) if lineage else None

    def _read_joining(self, server: str, bid: str) -> Sequence[Effect]:
        return (store.joining(Installation.of(self._config, server).redis.keys, bid),)

    @property
    def _server(self) -> Installation:
        return Installation.of(self._config)

    def _removing(self, news: JobRemoved) -> Sequence[Effect]:
        """Note the removal of a member, and of the steps that wait for it, in the script that removes it.

        Raises RedisFailure.
        """
        payload = _decoded(news)
        (bid, is_member), jid = _batch_of(payload), payload.get("jid")
        outcomes = self._outcomes(bid, news.server) if bid else None
        if outcomes is None or not isinstance(jid, str):
            return ()
        waits = news.where == steps.WAITING
        why = ": a step before it has no result" if waits else f": removed ({news.how})"
        if news.error is not None:
            why = f": {message_of(news.error)}" if waits else f": {_kind(news.error)}"
        event = "broken" if not is_member else "replaced" if news.how == "debounce" else "died"
        effects = [outcomes.other(event, jid, f"{payload.get('class')}{why}")]
        if steps.FOLLOWED in payload and not waits:
            effects += steps.stopping(Installation.of(self._config, news.server), bid, jid)
        return effects


def _kind(error: BaseException) -> str:
    return type(error).__name__[:MAX_CLASS_CHARACTERS]


def _decoded(news: JobRemoved) -> Mapping[str, Any]:
    """Return the payload of a removed job; empty if it cannot be of a batch."""
    payload = decode_or_none(news.raw) if any(key in news.raw for key in _KEYS_BYTES) else None  # most jobs
    return {} if payload is None else cast("Mapping[str, Any]", payload)


def _batch_of(payload: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the batch of a job, and whether it is a member; empty without a batch."""
    bid, callback_of = payload.get(BID), payload.get(CALLBACK_OF)
    if isinstance(bid, str):
        return bid, True
    return (callback_of, False) if isinstance(callback_of, str) else ("", False)


def _event(outcome: Outcome, goes: Destination, *, is_member: bool, cancelled: bool) -> str | None:
    """Return the event of ``advance.lua``; None if the outcome changes nothing."""
    if goes == "retry" and isinstance(outcome, Failed):
        return "failed" if is_member else None
    if goes not in ("gone", "dead", "quarantine"):
        return None
    if goes == "gone" and outcome.name in _SUCCESSES and not cancelled:
        return "succeeded" if is_member else "called"
    return "died" if is_member else "broken"
