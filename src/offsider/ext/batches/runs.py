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
retried it. A debounced member that another push replaces is no member any more; a script of its own notes that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from offsider.config.installation import Installation
from offsider.core.error_text import MAX_CLASS_CHARACTERS, message_of
from offsider.core.errors import MalformedPayload, RedisFailure, RedisUnavailable, Shutdown
from offsider.core.outcome import Failed, Rescheduled
from offsider.core.payload import decode
from offsider.ext.batches import steps, store
from offsider.ext.batches.block import check_member
from offsider.ext.batches.store import BID, CALLBACK_OF, Installed, lineages
from offsider.logs.structured import about_here
from offsider.storage.effects import run_alone

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.outcome import Destination, Outcome
    from offsider.ext.batches.store import Lives
    from offsider.runtime.context import JobContext
    from offsider.runtime.events import JobRemoved
    from offsider.runtime.middleware import Middleware, Push
    from offsider.storage.effects import Effect

logger = logging.getLogger("offsider")

OUTAGE_SECONDS = 1.0
REFUSED_SECONDS = 10.0
_SUCCESSES = frozenset({"succeeded", "skipped", "expired"})
_KEYS_BYTES = tuple(f'"{key}"'.encode() for key in (BID, CALLBACK_OF))


class Joins:
    """The effects of pushes: members join their batch."""

    def __init__(self, config: Config) -> None:
        @lru_cache(1_000)
        def joining(server: str, bid: str) -> Sequence[Effect]:
            return (store.joining(Installation.of(config, server).redis.keys, bid),)

        self._joining = joining

    def concerns(self, push: Push) -> bool:
        return BID in push.payload

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        del at
        payload = cast("Mapping[str, Any]", push.payload)
        bid = payload[BID]
        if not isinstance(bid, str) or not isinstance(payload.get("jid"), str):
            return ()
        check_member(payload)
        return self._joining(push.server, bid)


class BatchRuns:
    """The admission of members and callbacks, and the effects of jobs that are removed without a run."""

    def __init__(self, config: Config) -> None:
        self._config = config
        # Settings are final when the first job runs.
        self._outcomes = lru_cache(1_000)(self._read_outcomes)

    def install(self) -> None:
        self._config.push_effects.append(Joins(self._config))
        self._config.removal_effects.append(self._removing)
        self._config.admissions.prepend(self.admit)  # an outcome of another admission must not go unnoticed
        self._config.on("job_removed", self._replaced)

    def admit(self, job: JobContext) -> Middleware:
        """Add the effect of the outcome."""
        payload = cast("Mapping[str, Any]", job.payload)
        bid, is_member = _batch_of(payload)
        if not bid or not job.process:
            yield
            return None
        try:
            outcomes = self._outcomes_of(bid, job)
            if outcomes is not None and ("interrupted_count" in payload or "retry_count" in payload):
                self._abandon(outcomes.lineage, job)
            step = steps.step_of(self._here, job, bid, self._lives()) if steps.FOLLOWED in payload else None
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

            job.effects += (outcomes.effect(chosen),)
            if step is not None:
                job.effects += (step.effect(),)
        yield
        return None

    def _abandon(self, lineage: store.Lineage, job: JobContext) -> None:
        """Delete the children that an earlier run of the job left half filled: nothing would ever close them."""
        for child in store.abandon(self._here.redis, lineage, job.jid):
            logger.warning(
                "%s JID-%s: deleted batch %s, which an interrupted run left incomplete; its jobs run without a batch",
                job.name,
                job.jid,
                child,
                extra={"fields": about_here(job)},
            )

    def _outcomes_of(self, bid: str, job: JobContext) -> store.Outcomes | None:
        """Return the calls for the members of a batch, waiting for an unavailable server; None if it does not exist."""
        reported = False
        while True:
            try:
                return self._outcomes(bid)
            except RedisUnavailable as error:
                if not reported:
                    self._config.handle_error(error, {"context": "reading the batch of a job", "job": job.payload})
                reported = True
                if job.stopping:
                    raise Shutdown from None
                time.sleep(OUTAGE_SECONDS)

    def _read_outcomes(self, bid: str, server: str = "") -> store.Outcomes | None:
        here = Installation.of(self._config, server)
        lineage = lineages(here).of(bid)
        return store.outcomes(here.redis.keys.prefix, lineage, self._lives()) if lineage else None

    @property
    def _here(self) -> Installation:
        return Installation.of(self._config)

    def _lives(self) -> Lives:
        return Installed.of(self._config).lives(self._config)

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

    def _replaced(self, news: JobRemoved) -> None:
        """Note that another push has replaced a debounced member, whose jid is not known before."""
        if news.how != "debounce":
            return
        try:
            run_alone(Installation.of(self._config, news.server).redis, self._removing(news))
        except RedisFailure as error:
            context = {"context": "noting a replaced member of a batch", "jobstr": news.raw}
            self._config.handle_error(error, context)


def _kind(error: BaseException) -> str:
    return type(error).__name__[:MAX_CLASS_CHARACTERS]


def _decoded(news: JobRemoved) -> Mapping[str, Any]:
    """Return the payload of a removed job; empty if it cannot be of a batch."""
    if not any(key in news.raw for key in _KEYS_BYTES):  # most jobs
        return {}
    try:
        return cast("Mapping[str, Any]", decode(news.raw))
    except MalformedPayload:
        return {}


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
