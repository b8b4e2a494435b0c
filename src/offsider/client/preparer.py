"""Turns a pushed mapping into bytes for Redis. No I/O: both clients share it.

1. `builder.py` merges defaults < the job's options < routing rules < the push, binds arguments, and adds jid,
   created_at, due time and the context of the pushing code
2. the queue resolver may choose another queue
3. client middleware may change the job or cancel the push
4. arguments are checked after middleware (`strict_arguments.py`); the push guard decides whether
   it stores the job
5. the payload is encoded, with enqueued_at if the job goes to its queue now; large payloads are checked
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, cast

from offsider.client.alike import Alike, Pushes
from offsider.client.builder import Builder, check_keys, check_shape
from offsider.client.large_payloads import LargePayloads
from offsider.client.payload_template import PayloadTemplate
from offsider.client.prepared import Prepared, PreparedAlike, filled
from offsider.client.strict_arguments import StrictArguments
from offsider.config.installation import Installation
from offsider.config.push_effects import PushEffects, effects_of
from offsider.core.arguments import colliding_key
from offsider.core.compression import SMALL_BYTES, compress, is_compressed, readable
from offsider.core.errors import InvalidArguments
from offsider.core.options import check_queue_name
from offsider.core.payload import JobPayload, check_nesting, encode, stamp
from offsider.runtime.middleware import ClientChain, Push
from offsider.storage.effects import are_shared


class Preparer:
    """Prepares pushes for one configuration. Thread-safe: it keeps no state of a push."""

    def __init__(self, server: Installation, middleware: ClientChain | None = None) -> None:
        self.config = config = server.config
        self._middleware = config.client_middleware if middleware is None else middleware
        self.builder = Builder(server)
        self._strict = StrictArguments(config)
        self._large = LargePayloads(config)

    def prepare(self, push: Push) -> Prepared | None:
        """Prepare a push for storage. None if client middleware canceled it.

        Raises:
            InvalidJob: after middleware it is not a job, or its arguments are not JSON.
            Exception: exceptions of middleware.
        """
        queue = push.payload.get("queue")
        if push.reason == "push" and self.config.queue_resolver is not None:
            _resolve_queue(push, self.config.queue_resolver)
        if len(self._middleware) and not self._passes(push):
            return None
        if push.reason == "push" and push.job is not None and push.payload.get("queue") != queue:
            push.payload["routed"] = False
        return self._finish(push)

    @property
    def passes_unchanged(self) -> bool:
        """Whether there is neither a queue resolver nor client middleware."""
        return self.config.queue_resolver is None and not len(self._middleware)

    def _can_be_template(self, push: Push) -> bool:
        """Whether nothing has to see each job that is like this one, except its effects."""
        guard = self.config.push_guard
        return self.passes_unchanged and not (guard is not None and guard.concerns(push))

    def prepare_all(self, pushes: Pushes) -> Sequence[Prepared | None]:
        """Prepare pushes as `prepare` does, faster if they are alike."""
        if isinstance(pushes, Alike) and self._can_be_template(pushes.template):
            return self._prepare_alike(pushes)
        return [self.prepare(push) for push in pushes]

    def _prepare_alike(self, pushes: Alike) -> Sequence[Prepared]:
        """Prepare pushes for their queue. Requires `_can_be_template`."""
        template = pushes.template
        now = stamp(self.config.clock.now(), self.builder.wire_version(template.server))
        shared = cast(JobPayload, {**template.payload, "enqueued_at": now})
        _set_expiry(shared, self.config.clock.now())
        raws = self._encode_alike(pushes, shared)
        for index, payload in _large(pushes, shared, raws):
            raws[index] = self._large.looked_at(payload, raws[index], template.job)
        jobs = PreparedAlike(shared, raws, pushes.calls, pushes.jids, server=template.server)
        entries = [entry for entry in self.config.push_effects if entry.concerns(template)]
        return self._with_effects(jobs, entries, template) if entries else jobs

    def _encode_alike(self, pushes: Alike, shared: JobPayload) -> list[bytes]:
        """Check and encode pushes with these shared values."""
        self._encode(shared)
        self._strict.check_own_keys(shared)
        bytes_of = PayloadTemplate(shared)
        return bytes_of.fill_all(pushes.calls, pushes.jids) or self._encode_singly(pushes, shared, bytes_of)

    def _encode_singly(self, pushes: Alike, shared: JobPayload, bytes_of: PayloadTemplate) -> list[bytes]:
        raws: list[bytes] = []
        for args, jid in zip(pushes.calls, pushes.jids, strict=True):
            payload = filled(shared, args, jid)
            self._strict.check(payload, pushes.template.job)
            raws.append(self._fill(bytes_of, payload))
        return raws

    def _with_effects(self, jobs: PreparedAlike, entries: Sequence[PushEffects], template: Push) -> Sequence[Prepared]:
        push = Push(payload=template.payload, reason="push", job=template.job, server=template.server)
        made: list[Prepared] = []
        for job in jobs:
            push.payload = job.payload
            effects = effects_of(entries, push, None)
            if not made and are_shared(effects):
                jobs.effects = effects
                return jobs
            made.append(job._replace(effects=effects))
        return made

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """Prepare a stored job for its queue: add missing defaults, run middleware, set a new ``enqueued_at``.

        None if middleware canceled the push. Strict arguments are not checked again: they came from JSON.

        Raises:
            InvalidJob: it cannot be encoded; it can only be moved unchanged.
            Exception: exceptions of middleware.
        """
        merged = self.builder.complete_stored(payload)
        merged.pop("at", None)
        push = Push(payload=merged, reason=reason, job=job)
        return self._prepare_packed(push) if is_compressed(merged) and len(self._middleware) else self.prepare(push)

    def _prepare_packed(self, push: Push) -> Prepared | None:
        """Like `prepare`, for compressed arguments: middleware gets them expanded, and they are compressed again."""
        push.payload = readable(push.payload)
        prepared = self.prepare(push)
        if prepared is None or is_compressed(
            prepared.payload
        ):  # unreadable arguments: a worker moves the job to the dead set
            return prepared
        return prepared._replace(raw=self._encode(compress(prepared.payload)))

    def check_for_later(self, pushes: Pushes) -> None:
        """Raise now the errors in the payloads that storing the pushes would raise later."""
        if isinstance(pushes, Alike):
            shared = pushes.template.payload
            raws = self._encode_alike(pushes, shared)
            for index, payload in _large(pushes, shared, raws):
                self._large.check(payload, raws[index], pushes.template.job)
            return
        for push in pushes:
            self._strict.check(push.payload, push.job)
            raw = self._encode(push.payload)
            self._strict.check_own_keys(push.payload)  # after encoding, which rejects cycles
            self._large.check(push.payload, raw, push.job)

    def _passes(self, push: Push) -> bool:
        """Run client middleware; False if it canceled the push."""
        if self._middleware.run(push, lambda push: push) is None:
            return False
        check_keys(push.payload)
        if push.reason == "push":  # a stored job moves with any payload
            check_shape(cast("dict[str, Any]", push.payload))
            check_queue_name(push.payload.get("queue"), what=f"{push.payload['class']}: queue")
        return True

    def _finish(self, push: Push) -> Prepared:
        payload = push.payload
        now = self.config.clock.now()
        at = payload.pop("at", None)
        if at is not None and (at <= now or push.reason != "push"):  # a moved job was due already
            at = None
        guard = self.config.push_guard
        if at is None and guard is not None and push.reason == "push":
            at = guard.due(push, now)
        if at is None:
            payload["enqueued_at"] = stamp(now, self.builder.wire_version(push.server))
        else:
            payload.pop("enqueued_at", None)
        if push.reason == "push":
            _set_expiry(payload, now if at is None else at)
            self._strict.check(payload, push.job)
        guarded = guard is not None and push.reason == "push" and guard.take(push, at)
        raw = self._encode(payload)
        entries = self.config.push_effects
        effects = effects_of(entries, push, at) if entries and push.reason == "push" else ()
        if push.reason == "push":
            self._strict.check_own_keys(payload)  # after encoding, which rejects cycles
            if len(raw) > SMALL_BYTES:
                raw = self._large.looked_at(payload, raw, push.job)
        return Prepared(payload, raw, payload.get("queue", "default"), at, guarded, push.server, effects)

    def _encode(self, payload: JobPayload) -> bytes:
        try:
            return self._stored(payload, encode(payload))
        except ValueError as error:
            raise InvalidArguments(f"{payload.get('class')}: cannot be stored as JSON: {error}") from error

    def _fill(self, template: PayloadTemplate, payload: JobPayload) -> bytes:
        try:
            return self._stored(payload, template.fill(payload["args"], payload.get("jid", "")))
        except (ValueError, TypeError, RecursionError):
            return self._encode(payload)  # raises an error with the job name

    def _stored(self, payload: JobPayload, raw: bytes) -> bytes:
        """Check the encoded payload; raises ValueError if Ruby cannot read it, regardless of strict_args."""
        check_nesting(raw, payload)
        if self.config.client.strict_args != "raise" or len(self._middleware):  # otherwise all keys are strings
            key = colliding_key(payload)
            if key is not None:
                raise ValueError(f"two keys of one dict become {key!r}; use distinct string keys")
        return raw


def _resolve_queue(push: Push, resolver: Callable[[Push], str | None]) -> None:
    chosen = resolver(push)
    if chosen is not None:
        push.payload["queue"] = check_queue_name(chosen, what="the queue that queue_resolver chose")


def _large(pushes: Alike, shared: JobPayload, raws: Sequence[bytes]) -> Iterator[tuple[int, JobPayload]]:
    """Yield the index and the payload of each job whose bytes may be too many."""
    if max(map(len, raws)) > SMALL_BYTES:
        for index, raw in enumerate(raws):
            if len(raw) > SMALL_BYTES:
                yield index, filled(shared, pushes.calls[index], pushes.jids[index])


def _set_expiry(payload: JobPayload, start: float) -> None:
    seconds = payload.get("expires_in")
    if seconds is not None:
        payload.setdefault("expiry", start + seconds)
