"""Turns a pushed mapping into bytes for Redis. No I/O: both clients share it.

1. build: merge defaults < the job's options < routing rules < the push; bind arguments; add jid, created_at, due time
   and the context of the pushing code
2. the queue resolver may choose another queue
3. client middleware may change or stop the job
4. check strict arguments after middleware; the push guard decides whether it stores the job
5. encode, with enqueued_at if the job goes to its queue now; check large payloads
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

from offsider.client.alike import Alike, Pushes
from offsider.client.large_payloads import LargePayloads
from offsider.client.payload_template import PayloadTemplate
from offsider.client.prepared import DeclaredJob, Prepared, declared_of, filled
from offsider.client.times import due_at
from offsider.client.via import chosen_server
from offsider.config.installation import Installation
from offsider.config.push_effects import effects_of
from offsider.config.routing import MAIN, Rules, route
from offsider.core.arguments import Unsafe, are_plain, check_json, colliding_key, explain, odd_keys
from offsider.core.compression import SMALL_BYTES, compress, is_compressed, readable
from offsider.core.errors import InvalidArguments, InvalidJob, InvalidOptions
from offsider.core.job_id import JobId
from offsider.core.normalize import normalize, wrong_shape
from offsider.core.options import check_known, check_queue_name, merge_options, stored_level
from offsider.core.payload import JobPayload, check_nesting, encode, new_jid, stamp
from offsider.logs.structured import about_payload
from offsider.runtime.middleware import ClientChain, Push
from offsider.runtime.propagation import stamps
from offsider.storage.effects import Effect, are_shared

logger = logging.getLogger("offsider")

_SHARED = frozenset({"tags", "profiler_options"})
_CONTAINERS = frozenset({dict, list, tuple})
_ARGUMENTS = frozenset({"args", "kwargs"})
_TEXT = {str}
DEFAULTS: dict[str, Any] = {"retry": True, "queue": "default"}


class _Base(NamedTuple):
    """The merged options that pushes of one job start from, and their sources."""

    defaults: Mapping[str, Any]
    rules: Rules
    options: dict[str, Any]
    server: str


class Preparer:
    """Prepares pushes for one configuration. Thread-safe: it keeps no state of a push."""

    def __init__(self, here: Installation, middleware: ClientChain | None = None) -> None:
        self.config = config = here.config
        self._here = here
        self._middleware = config.client_middleware if middleware is None else middleware
        self._large = LargePayloads(config)
        # Merged options by job, each with the [jobs] defaults and the rules that they were merged from.
        self._bases: dict[DeclaredJob | None, _Base] = {}

    def build(self, item: Mapping[str, Any]) -> Push:
        """Build the push of ``item``, before client middleware.

        Raises:
            InvalidJob: the class is missing, arguments are not a list or do not match, or an option is invalid.
        """
        merged, job, server = self._merge(item)
        self._place_arguments(merged, job)
        now = self.config.clock.now()
        self._place_time(merged, now)
        return self._complete(merged, job, server, now)

    def build_template(self, item: Mapping[str, Any]) -> Push:
        """Build the template of a bulk push, without arguments, time and jid."""
        merged, job, server = self._merge({**item, "args": []})
        return self._complete(merged, job, server, self.config.clock.now())

    def prepare(self, push: Push) -> Prepared | None:
        """Prepare a push for storage. None if client middleware stopped the job.

        Raises:
            InvalidJob: after middleware it is not a job, or its arguments are not JSON.
            Exception: exceptions of middleware.
        """
        if push.reason == "push":
            self._resolve_queue(push)
        passed = self._through_middleware(push)
        return None if passed is None else self._finish(passed)

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
        now = stamp(self.config.clock.now(), self._wire_version(template.server))
        shared = cast(JobPayload, {**template.payload, "enqueued_at": now})
        _set_expiry(cast("dict[str, Any]", shared), self.config.clock.now())
        self._encode(shared)
        self._check_own_keys(shared)
        bytes_of, job, server = PayloadTemplate(shared), template.job, template.server
        queue = shared.get("queue", "default")
        entries = [entry for entry in self.config.push_effects if entry.concerns(template)]
        push = Push(payload=template.payload, reason="push", job=job, server=server)
        effects: Sequence[Effect] = ()
        own_effects = bool(entries)
        jobs: list[Prepared] = []
        for args, jid, is_plain in zip(pushes.calls, pushes.jids, pushes.plain, strict=True):
            if is_plain:  # most jobs: nothing to check, and nothing that cannot be encoded
                raw = bytes_of.fill(args, jid)
            else:
                payload = filled(shared, args, jid)
                self._check_arguments(payload, job)
                raw = self._fill(bytes_of, payload)
            if len(raw) > SMALL_BYTES:
                raw = self._large.looked_at(filled(shared, args, jid), raw, job)
            if own_effects:
                push.payload = filled(shared, args, jid)
                effects = effects_of(entries, push, None)
                own_effects = not are_shared(effects)
            jobs.append(Prepared(shared, raw, queue, None, False, server, effects, args, jid))
        return jobs

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """Prepare a stored job for its queue: add missing defaults, run middleware, set a new ``enqueued_at``.

        None if middleware stopped it. Strict arguments are not checked again: they came from JSON.

        Raises:
            InvalidJob: it cannot be encoded; it can only be moved unchanged.
            Exception: exceptions of middleware.
        """
        merged = cast(JobPayload, self._on_base(self._base(None), payload))
        merged.pop("at", None)
        merged["queue"] = normalize(merged).get("queue") or DEFAULTS["queue"]
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
        """Raise now the errors in the arguments that storing the pushes would raise later."""
        client = self.config.client
        encodes = (
            client.strict_args != "raise" or client.payload_limit_bytes
        )  # otherwise checked arguments can be stored
        for push in pushes if encodes or not isinstance(pushes, Alike) else pushes.not_plain():
            self.check_arguments(push)
            if encodes:
                self._large.check(push.payload, self._encode(push.payload), push.job)

    def check_arguments(self, push: Push) -> None:
        """Raise or warn, depending on ``client.strict_args``, about arguments that JSON would change."""
        self._check_arguments(push.payload, push.job)

    def _check_arguments(self, payload: JobPayload, job: object | None) -> None:
        if self.config.client.strict_args == "off":
            return
        if are_plain(payload["args"]) and "kwargs" not in payload:  # most jobs
            return
        found = _unsafe_argument(payload, job)
        if found is None:
            return
        name, unsafe = found
        if self.config.client.strict_args != "raise":
            unsafe = replace(unsafe, path=())  # keys of dicts are data, which must not reach a log
        self._complain(explain(payload["class"], name, unsafe), payload)

    def _complain(self, message: str, payload: JobPayload) -> None:
        if self.config.client.strict_args == "raise":
            raise InvalidArguments(message)
        logger.warning("%s", message, extra={"fields": about_payload(payload)})

    # 1. build

    def _merge(self, item: Mapping[str, Any]) -> tuple[dict[str, Any], DeclaredJob | None, str]:
        payload = dict(item)
        job = self._name_class(payload)
        if "extra" in payload:
            payload.update(self._extra(payload.pop("extra"), payload["class"]))
        if isinstance(payload.get("jid"), JobId):  # of an earlier push
            payload["jid"] = str(payload["jid"])
        check_known(payload, job_name=payload["class"])
        base = self._base(job)
        server = payload.pop("server", "") or chosen_server() or base.server
        return self._on_base(base, payload), job, "" if server == self._here.server else self._known(server)

    def _extra(self, extra: object, name: str) -> Mapping[str, Any]:
        if isinstance(extra, Mapping):
            return cast("Mapping[str, Any]", extra)
        raise InvalidOptions(f"{name}: extra must be a mapping, got {extra!r}")

    def _complete(self, payload: dict[str, Any], job: DeclaredJob | None, server: str, now: float) -> Push:
        payload.setdefault("jid", new_jid())
        payload.setdefault("created_at", stamp(now, self._wire_version(server)))
        for key, value in stamps().items():
            payload.setdefault(key, value)
        self._check_keys(payload)
        self._check_shape(payload)
        return Push(payload=cast(JobPayload, payload), reason="push", job=job, server=server)

    def _known(self, server: str) -> str:
        """Return the name; raise ConfigurationError if the configuration has no such server."""
        return self._here.for_server(server).server

    def _wire_version(self, server: str) -> int:
        return (self.config.servers[server] if server else self._here.settings).wire_version

    def _name_class(self, payload: dict[str, Any]) -> DeclaredJob | None:
        given = payload.get("class")
        job = declared_of(given)
        if job is not None:
            payload["class"] = job.name
        elif not isinstance(given, str) or not given:
            raise InvalidJob(f"class must be the name of a job or a declared job, got {given!r}")
        elif "kwargs" in payload:
            raise InvalidArguments(
                f"{given}: kwargs cannot be pushed by class name, because a Ruby job would lose them silently; pass "
                "args, or push a job declared in Python"
            )
        return job

    def _on_base(self, base: _Base, payload: Mapping[str, Any]) -> dict[str, Any]:
        merged = merge_options(base.options, payload)
        for key in _SHARED.intersection(merged):
            # Middleware may modify it in place, which must not affect the declaration or the caller's list.
            merged[key] = copy(merged[key])
        return merged

    def _base(self, job: DeclaredJob | None) -> _Base:
        defaults, rules = self.config.jobs.stored, self.config.routing.rules
        known = self._bases.get(job)
        if known is not None and known.defaults is defaults and known.rules is rules:
            return known
        self.config.jobs.check_for_push(self.config.job_options)
        options = merge_options(DEFAULTS, defaults, {} if job is None else job.stored_options(self.config))
        if job is not None:
            options |= job.origin(self.config)
        server = MAIN
        if job is not None:
            routed = route(job, rules, defaults)
            server = routed.server
            if rules:
                options["queue"] = routed.queue
        base = self._bases[job] = _Base(defaults, rules, options, server)
        return base

    def _place_arguments(self, payload: dict[str, Any], job: DeclaredJob | None) -> None:
        args = payload.get("args")
        if not isinstance(args, list | tuple):
            raise InvalidArguments(f"{payload['class']}: args must be a list, got {type(args).__name__}")
        arguments = cast("list[Any]", args)
        if job is None:
            payload["args"] = list(arguments)
            return
        payload["args"], kwargs = job.bind(arguments, payload.pop("kwargs", None) or {})
        if kwargs:
            payload["kwargs"] = kwargs

    def _place_time(self, payload: dict[str, Any], now: float) -> None:
        at = payload.pop("at", None)
        if at is not None:
            due = due_at(at, now)
            if due is not None:
                payload["at"] = due

    def _check_keys(self, payload: Mapping[str, Any]) -> None:
        if {*map(type, payload)} == _TEXT:  # most payloads
            return
        odd = [key for key in cast("Mapping[object, Any]", payload) if not isinstance(key, str)]
        if odd:
            raise InvalidJob(f"{payload.get('class')}: the keys of a job must be strings, got {odd[0]!r}")

    def _check_shape(self, payload: dict[str, Any]) -> None:
        wrong = wrong_shape(payload)
        if wrong:
            raise InvalidJob(f"{payload.get('class')}: {wrong}")
        if payload.get("log_level") is not None:  # callers and middleware may use Python's level names
            check_known({"log_level": payload["log_level"]}, job_name=payload["class"])
            payload["log_level"] = stored_level(payload["log_level"])

    # 2. and 3.

    def _resolve_queue(self, push: Push) -> None:
        resolver = self.config.queue_resolver
        chosen = resolver(push) if resolver is not None else None
        if chosen is not None:
            push.payload["queue"] = check_queue_name(chosen, what="the queue that queue_resolver chose")

    def _through_middleware(self, push: Push) -> Push | None:
        if not len(self._middleware):
            return push
        passed = self._middleware.compose(_last)(push)
        if passed is not None:
            if passed is not push:
                passed.server = passed.server or push.server  # middleware creates pushes without it
            self._check_keys(passed.payload)
            if push.reason == "push":  # a stored job moves with any payload
                self._check_shape(cast("dict[str, Any]", passed.payload))
                check_queue_name(passed.payload.get("queue"), what=f"{passed.payload['class']}: queue")
        return passed

    # 4. and 5.

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
            payload["enqueued_at"] = stamp(now, self._wire_version(push.server))
        else:
            payload.pop("enqueued_at", None)
        if push.reason == "push":
            _set_expiry(cast("dict[str, Any]", payload), now if at is None else at)
            self.check_arguments(push)
        guarded = self._is_guarded(push, at)
        entries = self.config.push_effects
        effects = effects_of(entries, push, at) if entries and push.reason == "push" else ()
        raw = self._encode(payload)
        if push.reason == "push":
            self._check_own_keys(payload)  # after encoding, which rejects cycles
            if len(raw) > SMALL_BYTES:
                raw = self._large.looked_at(payload, raw, push.job)
        return Prepared(payload, raw, payload.get("queue", "default"), at, guarded, push.server, effects)

    def _is_guarded(self, push: Push, at: float | None) -> bool:
        guard = self.config.push_guard
        return guard is not None and push.reason == "push" and guard.take(push, at)

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

    def _check_own_keys(self, payload: JobPayload) -> None:
        """Check the caller's own keys. JSON may change their values, but not the keys of dicts, which may collide."""
        if self.config.client.strict_args == "off":
            return
        for name, value in payload.items():
            if type(value) in _CONTAINERS and name not in _ARGUMENTS and (keys := odd_keys(value)):
                kind = type(keys[0]).__name__
                self._complain(f"{payload['class']}: {name!r} has a key of type {kind}; JSON keys are strings", payload)


def _set_expiry(payload: dict[str, Any], start: float) -> None:
    seconds = payload.get("expires_in")
    if seconds is not None:
        payload.setdefault("expiry", start + seconds)


def _last(push: Push) -> Push | None:
    return push


def _unsafe_argument(payload: JobPayload, declared: object | None) -> tuple[str, Unsafe] | None:
    """Return the name of the first argument that JSON would change, and what it would change."""
    for position, value in enumerate(payload["args"]):
        unsafe = check_json(value)
        if unsafe is not None:
            job = cast("DeclaredJob | None", declared)
            name = f"args[{position}]" if job is None else job.parameter_name(position)
            return name, unsafe
    for name, value in payload.get("kwargs", {}).items():
        unsafe = check_json(value)
        if unsafe is not None:
            return name, unsafe
    return None
