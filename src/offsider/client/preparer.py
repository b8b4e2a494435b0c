"""From what the user pushed to bytes ready for Redis. No I/O: the client and its asynchronous twin share it.

1. build: defaults < the job's options < routing rules < the push; arguments bound; jid, created_at and due time
   given; stamped with the context of the pushing side
2. the queue resolver may choose another queue
3. client middleware may change or stop the job
4. strict arguments are checked, on what the middleware left; the push guard says whether it stores the job
5. encode, with enqueued_at when the job goes to its queue now; what is large is looked at
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, cast

from offsider.client.large_payloads import LargePayloads
from offsider.client.prepared import DeclaredJob, Prepared, declared_of
from offsider.client.stencil import Stencil
from offsider.client.times import due_at
from offsider.client.via import chosen_server
from offsider.core.arguments import are_plain, check_json, explain, odd_keys
from offsider.core.compression import SMALL_BYTES, compress, is_compressed, readable
from offsider.core.errors import InvalidArguments, InvalidJob, InvalidOptions
from offsider.core.options import check_known, check_queue_name, merge_options
from offsider.core.payload import JobPayload, check_nesting, encode, new_jid, new_jids, stamp, wrong_shape
from offsider.wiring.config import Config
from offsider.wiring.middleware import ClientChain, Push
from offsider.wiring.propagation import stamps
from offsider.wiring.routing import MAIN, Rules, route

logger = logging.getLogger("offsider")

_SHARED = frozenset({"tags", "profiler_options"})
_CONTAINERS = frozenset({dict, list, tuple})
_ARGUMENTS = frozenset({"args", "kwargs"})
DEFAULTS: dict[str, Any] = {"retry": True, "queue": "default"}


class _Base(NamedTuple):
    """What the pushes of one job start from, and what it was made from."""

    defaults: Mapping[str, Any]
    rules: Rules
    options: dict[str, Any]
    server: str


class Preparer:
    """Prepares pushes for one configuration. Holds no state of a single push, so threads share it."""

    def __init__(self, config: Config, middleware: ClientChain | None = None) -> None:
        self.config = config
        self._middleware = config.client_middleware if middleware is None else middleware
        self._large = LargePayloads(config)
        # Options that a push starts from, by job; each with the [jobs] defaults and the rules that it was made from.
        self._bases: dict[DeclaredJob | None, _Base] = {}

    def build(self, item: Mapping[str, Any]) -> Push:
        """The push of ``item``, complete but for client middleware.

        Raises:
            InvalidJob: there is no class, arguments are no list or do not fit, an option is impossible.
        """
        merged, job, server = self._merge(item)
        self._place_arguments(merged, job)
        now = self.config.clock.now()
        self._place_time(merged, now)
        return self._complete(merged, job, server, now)

    def build_template(self, item: Mapping[str, Any]) -> Push:
        """A push that many jobs are copies of: arguments, time and jid of each are still to come."""
        merged, job, server = self._merge({**item, "args": []})
        return self._complete(merged, job, server, self.config.clock.now())

    def prepare(self, push: Push) -> Prepared | None:
        """Bytes for Redis, or None when client middleware stopped the job.

        Raises:
            InvalidJob: what the middleware left is no job, or its arguments are not JSON.
            Exception: whatever middleware raises.
        """
        if push.reason == "push":
            self._resolve_queue(push)
        passed = self._through_middleware(push)
        return None if passed is None else self._finish(passed)

    @property
    def passes_unchanged(self) -> bool:
        """Whether neither a queue resolver nor client middleware looks at pushes."""
        return self.config.queue_resolver is None and not len(self._middleware)

    def may_be_guarded(self, template: Push) -> bool:
        """Whether the configuration's push guard wants to see each of the jobs."""
        guard = self.config.push_guard
        return guard is not None and guard.concerns(template.payload)

    def prepare_alike(self, template: Push, calls: Sequence[list[Any]]) -> list[Prepared]:
        """Bytes for jobs that go to their queue now and differ in arguments and jid alone, with ``passes_unchanged``.

        Raises:
            InvalidJob: as `prepare`.
        """
        now = stamp(self.config.clock.now(), self._wire_version(template.server))
        shared: dict[str, Any] = {**template.payload, "enqueued_at": now}
        self._encode(cast(JobPayload, shared))
        self._check_own_keys(cast(JobPayload, shared))
        stencil, job, queue = Stencil(shared), template.job, shared["queue"]
        jobs: list[Prepared] = []
        for args, jid in zip(calls, new_jids(len(calls)), strict=True):
            payload = cast(JobPayload, {**shared, "args": args, "jid": jid})
            self._check_arguments(payload, job)
            raw = self._fill(stencil, payload)
            if len(raw) > SMALL_BYTES:
                raw = self._large.looked_at(payload, raw, job)
            jobs.append(Prepared(payload, raw, queue, None, server=template.server))
        return jobs

    def reenqueue(
        self, payload: JobPayload, reason: Literal["schedule", "retry"], *, job: object | None = None
    ) -> Prepared | None:
        """A stored job on its way to its queue: missing defaults merged, middleware again, a new ``enqueued_at``.

        None when middleware stopped it. Strict arguments are not checked again: they came from JSON.

        Raises:
            InvalidJob: it does not encode; it can be moved only as it is.
            Exception: whatever middleware raises.
        """
        merged = cast(JobPayload, self._on_base(self._base(None), payload))
        merged.pop("at", None)
        push = Push(payload=merged, reason=reason, job=job)
        return self._prepare_packed(push) if is_compressed(merged) and len(self._middleware) else self.prepare(push)

    def _prepare_packed(self, push: Push) -> Prepared | None:
        """As `prepare`: middleware sees the arguments as they were given, and they are stored compressed again."""
        push.payload = readable(push.payload)
        prepared = self.prepare(push)
        if prepared is None or is_compressed(prepared.payload):  # of what cannot be read, a worker makes an end
            return prepared
        return prepared._replace(raw=self._encode(compress(prepared.payload)))

    def check_for_later(self, push: Push) -> None:
        """Raise now what storing the push would raise later, as far as its arguments are to blame."""
        self.check_arguments(push)
        try:
            self._large.check(push.payload, push.job)
        except ValueError as error:
            if isinstance(error, InvalidJob):
                raise
            raise InvalidArguments(f"{push.payload['class']}: cannot be stored as JSON: {error}") from error

    def check_arguments(self, push: Push) -> None:
        """Raise or warn, as ``client.strict_args`` says, about arguments that JSON does not carry unchanged."""
        self._check_arguments(push.payload, push.job)

    def _check_arguments(self, payload: JobPayload, job: object | None) -> None:
        if self.config.client.strict_args == "off":
            return
        if are_plain(payload["args"]) and "kwargs" not in payload:  # most jobs
            return
        message = _unsafe_argument(payload, job)
        if message is not None:
            self._complain(message)

    def _complain(self, message: str) -> None:
        if self.config.client.strict_args == "raise":
            raise InvalidArguments(message)
        logger.warning("%s", message)

    # 1. build

    def _merge(self, item: Mapping[str, Any]) -> tuple[dict[str, Any], DeclaredJob | None, str]:
        payload = dict(item)
        job = self._name_class(payload)
        if "extra" in payload:
            payload.update(self._extra(payload.pop("extra"), payload["class"]))
        check_known(payload, job_name=payload["class"])
        base = self._base(job)
        server = payload.pop("server", "") or chosen_server() or base.server
        return self._on_base(base, payload), job, "" if server == self.config.server else self._known(server)

    def _extra(self, extra: object, name: str) -> Mapping[str, Any]:
        if isinstance(extra, Mapping):
            return cast("Mapping[str, Any]", extra)
        raise InvalidOptions(f"{name}: extra must be a mapping, got {extra!r}")

    def _complete(self, payload: dict[str, Any], job: DeclaredJob | None, server: str, now: float) -> Push:
        payload.setdefault("jid", new_jid())
        payload.setdefault("created_at", stamp(now, self._wire_version(server)))
        for key, value in stamps().items():
            payload.setdefault(key, value)
        self._check_shape(payload)
        return Push(payload=cast(JobPayload, payload), reason="push", job=job, server=server)

    def _known(self, server: str) -> str:
        """ConfigurationError when the configuration has no such server."""
        return self.config.for_server(server).server

    def _wire_version(self, server: str) -> int:
        return (self.config.servers[server] if server else self.config.redis).wire_version

    def _name_class(self, payload: dict[str, Any]) -> DeclaredJob | None:
        given = payload.get("class")
        job = declared_of(given)
        if job is not None:
            payload["class"] = job.name
        elif not isinstance(given, str) or not given:
            raise InvalidJob(f"a push needs a class, the name of a job or a declared job, got {given!r}")
        elif "kwargs" in payload:
            raise InvalidArguments(
                f"{given}: kwargs cannot be pushed by class name, because a job that lives in Ruby would lose them "
                "silently; give args, or push a job that is declared in Python"
            )
        return job

    def _on_base(self, base: _Base, payload: Mapping[str, Any]) -> dict[str, Any]:
        merged = merge_options(base.options, payload)
        for key in _SHARED.intersection(merged):
            # Middleware may change it in place, and must not change the declaration or the caller's list.
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
            raise InvalidArguments(f"{payload['class']}: args must be a list, got {args!r}")
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

    def _check_shape(self, payload: Mapping[str, Any]) -> None:
        odd = [key for key in cast("Mapping[object, Any]", payload) if not isinstance(key, str)]
        if odd:
            raise InvalidJob(f"{payload.get('class')}: the keys of a job are strings, got {odd[0]!r}")
        wrong = wrong_shape(payload)
        if wrong:
            raise InvalidJob(f"{payload.get('class')}: {wrong}")

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
                passed.server = passed.server or push.server  # middleware makes pushes of its own without it
            self._check_shape(passed.payload)
            if push.reason == "push":  # a stored job goes on, however Ruby named its queue
                check_queue_name(passed.payload.get("queue"), what=f"{passed.payload['class']}: queue")
        return passed

    # 4. and 5.

    def _finish(self, push: Push) -> Prepared:
        payload = push.payload
        now = self.config.clock.now()
        at = payload.pop("at", None)
        if at is not None and (at <= now or push.reason != "push"):  # a job that is moved was due already
            at = None
        if at is None:
            payload["enqueued_at"] = stamp(now, self._wire_version(push.server))
        else:
            payload.pop("enqueued_at", None)
        if push.reason == "push":
            self.check_arguments(push)
        guarded = self._is_guarded(push, at)
        raw = self._encode(payload)
        if push.reason == "push":
            self._check_own_keys(payload)  # after the encoding, which no cycle passes
            if len(raw) > SMALL_BYTES:
                raw = self._large.looked_at(payload, raw, push.job)
        return Prepared(payload, raw, payload.get("queue", "default"), at, guarded, push.server)

    def _is_guarded(self, push: Push, at: float | None) -> bool:
        guard = self.config.push_guard
        return guard is not None and push.reason == "push" and guard.take(push, at)

    def _encode(self, payload: JobPayload) -> bytes:
        try:
            raw = encode(payload)
            check_nesting(raw, payload)  # whatever strict_args says: no worker could read it
            return raw
        except ValueError as error:
            raise InvalidArguments(f"{payload['class']}: cannot be stored as JSON: {error}") from error

    def _fill(self, stencil: Stencil, payload: JobPayload) -> bytes:
        try:
            raw = stencil.fill(payload["args"], payload.get("jid", ""))
            check_nesting(raw, payload)
            return raw
        except (ValueError, TypeError, RecursionError):
            return self._encode(payload)  # raises the error that says which job it is

    def _check_own_keys(self, payload: JobPayload) -> None:
        """What the caller put beside the arguments may hold what JSON changes, but for keys, which may then collide."""
        if self.config.client.strict_args == "off":
            return
        for name, value in payload.items():
            if type(value) in _CONTAINERS and name not in _ARGUMENTS and (keys := odd_keys(value)):
                self._complain(f"{payload['class']}: {name!r} has the key {keys[0]!r}; JSON keys are strings")


def _last(push: Push) -> Push | None:
    return push


def _unsafe_argument(payload: JobPayload, declared: object | None) -> str | None:
    for position, value in enumerate(payload["args"]):
        unsafe = check_json(value)
        if unsafe is not None:
            job = cast("DeclaredJob | None", declared)
            name = f"args[{position}]" if job is None else job.parameter_name(position)
            return explain(payload["class"], name, unsafe)
    for name, value in payload.get("kwargs", {}).items():
        unsafe = check_json(value)
        if unsafe is not None:
            return explain(payload["class"], name, unsafe)
    return None
