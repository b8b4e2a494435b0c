"""Turns pushes into bytes for Redis. No I/O.

1. `builder.py` merges defaults < the job's options < routing rules < the push, binds arguments, and adds jid,
   created_at, due time and context.
2. The queue resolver may choose another queue.
3. Client middleware may change the job or cancel the push.
4. `payload_checks.py` checks the arguments. The push guard decides whether it stores the job.
5. The preparer encodes the payload, with enqueued_at unless the job is scheduled. `payload_checks.py` checks its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from offsider.client.alike import Alike, PayloadTemplate, PreparedAlike, Pushes, filled
from offsider.client.builder import Builder, check_keys, check_shape
from offsider.client.deferred import collector
from offsider.client.payload_checks import LargePayloads, StrictArguments
from offsider.client.prepared import DeclaredJob
from offsider.client.template import PushTemplate
from offsider.client.via import chosen_server
from offsider.config.hooks import Prepared, PushEffects, effects_of
from offsider.config.installation import Installation
from offsider.core.arguments import colliding_key
from offsider.core.compression import SMALL_BYTES, compress, is_compressed, readable
from offsider.core.errors import InvalidArguments, InvalidOptions
from offsider.core.options import check_queue_name
from offsider.core.payload import JobPayload, check_nesting, encode, stamp
from offsider.runtime.middleware import ClientChain, Push
from offsider.storage.effects import are_shared

#: Options of ``using`` with which pushes are not usual.
UNUSUAL = frozenset({"after_commit", "extra", "wait_replicas"})
#: Above it, templates are made anew: a program may push with ever new options.
MAX_TEMPLATES = 1_000


class Preparer:
    """Prepares pushes for one configuration. Thread-safe: it keeps no state of a push."""

    def __init__(self, server: Installation, middleware: ClientChain | None = None) -> None:
        self.config = config = server.config
        self._middleware = config.client_middleware if middleware is None else middleware
        self._builder = Builder(server)
        self._strict = StrictArguments(config)
        self._large = LargePayloads(config)
        #: By job and options; each with the parts of the configuration that it was made from. None: not usual.
        self._templates: dict[object, tuple[object, object, PushTemplate | None]] = {}

    def usual(
        self,
        job: DeclaredJob,
        key: object,
        args: Sequence[Any],
        item: Callable[[Any, dict[str, Any]], Mapping[str, Any]],
    ) -> Prepared | None:
        """Prepare a usual push. None if it is none, or needs a closer look.

        Args:
            job: its declaration.
            key: identifies the job and its options.
            args: positional arguments.
            item: adds the options, in stored form, to the mapping that `Builder.build` gets; takes the client.
        """
        config = self.config
        is_usual = self._middleware.is_empty and config.client.strict_args == "raise"
        if not is_usual or chosen_server() or collector() is not None:
            return None
        if config.after_commit is not None or config.outbox is not None or config.queue_resolver is not None:
            return None
        defaults, rules = config.jobs.stored, config.routing.rules
        try:
            made = self._templates.get(key)
        except TypeError:  # an option that is a list
            return None
        if made is None or made[0] is not defaults or made[1] is not rules:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            pushed = item(self, {"args": [], "class": job})
            made = self._templates[key] = defaults, rules, self._new_template(job, pushed)
        template = made[2]
        is_watched = config.push_guard is not None or config.push_effects or config.encryption is not None
        if template is None or (is_watched and self._is_concerned(template.push)):
            return None
        return template.fill(args, config.clock.now())

    def _new_template(self, job: DeclaredJob, item: Mapping[str, Any]) -> PushTemplate | None:
        if not UNUSUAL.isdisjoint(item) or job.wait_replicas:
            return None
        push = self._builder.build_common(item, 0.0)
        if "expires_in" in push.payload:
            return None
        self._strict.check_own_keys(push.payload)
        return PushTemplate(push, self._builder.settings_of(push.server))

    def _is_concerned(self, push: Push) -> bool:
        """Whether the push guard, an effect or the encryption wants to see a push like this one."""
        guard = self.config.push_guard
        return (
            "encrypt" in push.payload
            or (guard is not None and guard.concerns(push))
            or any(entry.concerns(push) for entry in self.config.push_effects)
        )

    def build_template(self, item: Mapping[str, Any]) -> Push:
        """Return the push that the jobs of a bulk push share, without arguments, time and jid."""
        return self._builder.build_template(item)

    def prepare(self, push: Push) -> Prepared | None:
        """Run queue resolver and client middleware, check arguments, and encode. None for a canceled push.

        Raises:
            InvalidJob: after middleware it is not a job, or its arguments are not JSON.
            Exception: exceptions of middleware.
        """
        queue = push.payload.get("queue")
        if push.reason == "push" and self.config.queue_resolver is not None:
            _resolve_queue(push, self.config.queue_resolver)
        if not self._middleware.is_empty and not self._passes(push):
            return None
        if push.reason == "push" and push.job is not None and push.payload.get("queue") != queue:
            push.payload["routed"] = False
        return self._finish(push)

    def _can_be_template(self, push: Push) -> bool:
        """Whether pushes that differ only in arguments and jid can be prepared together, apart from their effects."""
        resolver, guard = self.config.queue_resolver, self.config.push_guard
        is_plain = resolver is None and self._middleware.is_empty and "encrypt" not in push.payload
        return is_plain and not (guard is not None and guard.concerns(push))

    def prepare_all(self, pushes: Pushes) -> Sequence[Prepared | None]:
        """Prepare several pushes; those of `Alike` together, if possible."""
        if isinstance(pushes, Alike) and self._can_be_template(pushes.template):
            return self._prepare_alike(pushes)
        return [self.prepare(push) for push in pushes]

    def _prepare_alike(self, pushes: Alike) -> Sequence[Prepared]:
        """Prepare pushes together. Requires `_can_be_template`."""
        template = pushes.template
        now = stamp(self.config.clock.now(), self._builder.settings_of(template.server).wire_version)
        shared = cast(JobPayload, {**template.payload, "enqueued_at": now})
        _set_expiry(shared, self.config.clock.now())
        raws = self._encode_alike(pushes, shared)
        for index, payload in _large(pushes, shared, raws):
            raws[index] = self._large.checked(payload, raws[index], template.job)
        jobs = PreparedAlike(shared, raws, pushes.calls, pushes.jids, server=template.server)
        entries = [entry for entry in self.config.push_effects if entry.concerns(template)]
        return self._with_effects(jobs, entries, template) if entries else jobs

    def _encode_alike(self, pushes: Alike, shared: JobPayload) -> list[bytes]:
        """Check and encode pushes that share these values."""
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
            made.append(replace(job, effects=effects))
        return made

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """Prepare a stored job for its queue: add missing defaults, run middleware, set a new ``enqueued_at``.

        None if middleware canceled the push. Arguments are not checked again, because they are valid JSON.

        Raises:
            InvalidJob: it cannot be encoded; move it unchanged.
            Exception: exceptions of middleware.
        """
        merged = self._builder.complete_stored(payload)
        merged.pop("at", None)
        push = Push(payload=merged, reason=reason, job=job)
        return self.prepare(push) if self._middleware.is_empty else self._prepare_packed(push)

    def _prepare_packed(self, push: Push) -> Prepared | None:
        """Expand compressed arguments for middleware, and compress them again."""
        if not is_compressed(push.payload):
            return self.prepare(push)
        push.payload = readable(push.payload)
        prepared = self.prepare(push)
        # Arguments that cannot be expanded stay as they are: a worker moves the job to the dead set.
        if prepared is None or is_compressed(prepared.payload):
            return prepared
        return replace(prepared, raw=self._encode(compress(prepared.payload)))

    def _check_for_later(self, pushes: Pushes) -> None:
        """Raise errors of payloads now, and not when the pushes are stored."""
        if isinstance(pushes, Alike):
            shared = pushes.template.payload
            raws = self._encode_alike(pushes, shared)
            for index, payload in _large(pushes, shared, raws):
                self._large.check(payload, raws[index], pushes.template.job)
            return
        for push in pushes:
            self._strict.check(push.payload, push.job)
            if push.payload.get("encrypt") and self.config.encryption is not None:
                push = replace(push, payload=push.payload.copy())  # noqa: PLW2901
                self.config.encryption.seal(push)  # an encrypted argument is longer
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
            at = push.payload.get("at")
            if at is not None and not math.isfinite(at):
                raise InvalidOptions(f"{push.payload['class']}: at must be finite, got {at!r} from client middleware")
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
            payload["enqueued_at"] = stamp(now, self._builder.settings_of(push.server).wire_version)
        else:
            payload.pop("enqueued_at", None)
        if push.reason == "push":
            _set_expiry(payload, now if at is None else at)
            self._strict.check(payload, push.job)
        guarded = guard is not None and push.reason == "push" and guard.take(push, at)
        if push.reason == "push" and push.payload.get("encrypt") and self.config.encryption is not None:
            self.config.encryption.seal(push)
        raw = self._encode(payload)
        entries = self.config.push_effects
        effects = effects_of(entries, push, at) if entries and push.reason == "push" else ()
        if push.reason == "push":
            self._strict.check_own_keys(payload)  # after encoding, which rejects cycles
            if len(raw) > SMALL_BYTES:
                raw = self._large.checked(payload, raw, push.job)
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
        if self.config.client.strict_args != "raise" or not self._middleware.is_empty:  # otherwise all keys are strings
            key = colliding_key(payload)
            if key is not None:
                raise ValueError(f"two keys of one dict become {key!r}; use distinct string keys")
        return raw


def _resolve_queue(push: Push, resolver: Callable[[Push], str | None]) -> None:
    chosen = resolver(push)
    if chosen is not None:
        push.payload["queue"] = check_queue_name(chosen, what="the queue that queue_resolver chose")


def _large(pushes: Alike, shared: JobPayload, raws: Sequence[bytes]) -> Iterator[tuple[int, JobPayload]]:
    """Yield index and payload of each job that may exceed a size limit."""
    if max(map(len, raws)) > SMALL_BYTES:
        for index, raw in enumerate(raws):
            if len(raw) > SMALL_BYTES:
                yield index, filled(shared, pushes.calls[index], pushes.jids[index])


def _set_expiry(payload: JobPayload, start: float) -> None:
    seconds = payload.get("expires_in")
    if seconds is not None:
        payload.setdefault("expiry", start + seconds)
