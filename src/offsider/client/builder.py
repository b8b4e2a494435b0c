"""Builds pushes: merges options, binds arguments, and adds jid, created_at, due time and context. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, cast

from offsider.client.prepared import DeclaredJob, declared_of
from offsider.client.times import due_at
from offsider.client.via import chosen_server
from offsider.config.installation import Installation
from offsider.config.routing import MAIN, Rules, known_job, route
from offsider.core.errors import InvalidArguments, InvalidJob, InvalidOptions
from offsider.core.job_id import JobId
from offsider.core.normalize import normalize, wrong_shape
from offsider.core.options import check_known, merge_options, stored_level
from offsider.core.payload import JobPayload, new_jid, stamp
from offsider.runtime.middleware import Push
from offsider.runtime.propagation import stamps
from offsider.storage.redis import RedisSettings

_TEXT = {str}
DEFAULTS: dict[str, Any] = {"retry": True, "queue": "default"}


class _Base(NamedTuple):
    """The merged options that pushes of one job start from, and their sources.

    Attributes:
        default_queue: the queue without routing rules.
        mark: what a payload says about its queue, unless the push names it.
    """

    defaults: Mapping[str, Any]
    rules: Rules
    options: dict[str, Any]
    server: str
    default_queue: str
    mark: Mapping[str, bool]


class Builder:
    """Builds the pushes of one configuration. Thread-safe: it keeps no state of a push."""

    def __init__(self, server: Installation) -> None:
        self._config = server.config
        self._server = server
        # Merged options by job, each with the [jobs] defaults and the rules that they were merged from.
        self._bases: dict[DeclaredJob | None, _Base] = {}

    def build(self, item: Mapping[str, Any]) -> Push:
        """Build the push of ``item``, before client middleware.

        Raises:
            InvalidJob: the class is missing, arguments are not a list or do not match, or an option is invalid.
        """
        own, job = _own(item)
        base = self._base(job)
        _place_arguments(own, job)
        now = self._config.clock.now()
        if "at" in own:
            _place_time(own, now)
        return _with_context(self._complete(own, job, base, now))

    def build_template(self, item: Mapping[str, Any]) -> Push:
        """Build the template of a bulk push, without arguments, time and jid."""
        return _with_context(self.build_common(item, self._config.clock.now()))

    def build_common(self, item: Mapping[str, Any], now: float) -> Push:
        """Build the part that pushes of one job share in any context."""
        own, job = _own({**item, "args": []})
        return self._complete(own, job, self._base(job), now)

    def complete_stored(self, payload: JobPayload) -> JobPayload:
        """Return a copy of a stored job with its missing defaults and its queue by the current rules."""
        merged = cast(JobPayload, _on_base(self._base(None), payload))
        merged["queue"] = self._routed_again(merged, normalize(merged).get("queue") or DEFAULTS["queue"])
        return merged

    def _routed_again(self, payload: JobPayload, queue: str) -> str:
        """Return the queue of a stored job: by the current rules, unless its push or an option chose it."""
        job = declared_of(known_job(payload["class"]))
        if job is None or ("retry_count" in payload and payload.get("retry_queue") == queue):
            return queue
        base = self._base(job)
        # Ruby writes no ``routed``: its jobs in the default queue of their class follow the rules.
        follows = payload.get("routed", queue == base.default_queue) and base.server == self._server.name
        return str(base.options["queue"]) if follows else queue

    def settings_of(self, server: str) -> RedisSettings:
        """Return the section of a server of the configuration; "" is the client's own."""
        return self._config.servers[server] if server else self._server.settings

    def _complete(self, own: dict[str, Any], job: DeclaredJob | None, base: _Base, now: float) -> Push:
        chosen = own.pop("server", "") or chosen_server() or base.server
        server = "" if chosen == self._server.name else self._known(chosen)
        check_keys(own)
        check_shape(own)  # the options of the job were checked when it was declared
        payload: Any = _on_base(base, own)
        if job is not None and "queue" not in own:
            payload |= base.mark
        elif job is not None and own["queue"] == base.default_queue:  # Ruby's bytes for other queues
            payload.setdefault("routed", False)
        if "jid" not in payload:
            payload["jid"] = new_jid()
        if "created_at" not in payload:
            payload["created_at"] = stamp(now, self.settings_of(server).wire_version)
        return Push(payload, "push", job, server)

    def _known(self, server: str) -> str:
        """Return the name; raise ConfigurationError if the configuration has no such server."""
        return self._server.for_server(server).name

    def _base(self, job: DeclaredJob | None) -> _Base:
        defaults, rules = self._config.jobs.stored, self._config.routing.rules
        known = self._bases.get(job)
        if known is not None and known.defaults is defaults and known.rules is rules:
            return known
        self._config.jobs.check_for_push(self._config.job_options)
        options = merge_options(DEFAULTS, defaults, {} if job is None else job.stored_options(self._config))
        if job is not None:
            options |= job.origin(self._config)
        server, default_queue = MAIN, options["queue"]
        if job is not None:
            routed = route(job, rules, defaults)
            server = routed.server
            if rules:
                options["queue"] = routed.queue
        mark = {} if options["queue"] == default_queue else {"routed": True}
        base = self._bases[job] = _Base(defaults, rules, options, server, default_queue, mark)
        return base


def _with_context(push: Push) -> Push:
    payload: Any = push.payload
    for key, value in stamps().items():
        payload.setdefault(key, value)
    return push


def _own(item: Mapping[str, Any]) -> tuple[dict[str, Any], DeclaredJob | None]:
    """Return the payload keys of the push itself, and its declared job."""
    payload = dict(item)
    job = _name_class(payload)
    if "extra" in payload:
        payload.update(_extra(payload.pop("extra"), payload["class"]))
    if isinstance(payload.get("jid"), JobId):  # of an earlier push
        payload["jid"] = str(payload["jid"])
    check_known(payload, job_name=payload["class"])
    return payload, job


def _name_class(payload: dict[str, Any]) -> DeclaredJob | None:
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


def _extra(extra: object, name: str) -> Mapping[str, Any]:
    if isinstance(extra, Mapping):
        return cast("Mapping[str, Any]", extra)
    raise InvalidOptions(f"{name}: extra must be a mapping, got {extra!r}")


def _on_base(base: _Base, payload: Mapping[str, Any]) -> dict[str, Any]:
    merged = merge_options(base.options, payload)
    if "tags" in merged:
        # Middleware may modify them in place, which must not affect the declaration or the caller's list.
        merged["tags"] = copy(merged["tags"])
    return merged


def _place_arguments(payload: dict[str, Any], job: DeclaredJob | None) -> None:
    if not isinstance(payload.get("args"), (list, tuple)):
        raise InvalidArguments(f"{payload['class']}: args must be a list, got {type(payload.get('args')).__name__}")
    arguments: Sequence[Any] = payload["args"]
    if job is None:
        payload["args"] = list(arguments)
        return
    payload["args"], kwargs = job.bind(arguments, payload.pop("kwargs", None) or {})
    if kwargs:
        payload["kwargs"] = kwargs


def _place_time(payload: dict[str, Any], now: float) -> None:
    at = payload.pop("at")
    due = None if at is None else due_at(at, now)
    if due is not None:
        payload["at"] = due


def check_keys(payload: Mapping[str, Any]) -> None:
    """Raise InvalidJob if a key of the payload is not a string."""
    if {*map(type, payload)} == _TEXT:  # most payloads
        return
    odd = [key for key in cast("Mapping[object, Any]", payload) if not isinstance(key, str)]
    if odd:
        raise InvalidJob(f"{payload.get('class')}: the keys of a job must be strings, got {odd[0]!r}")


def check_shape(payload: dict[str, Any]) -> None:
    """Raise InvalidJob for a value of the wrong type; replace the name of a log level by its stored form."""
    wrong = wrong_shape(payload)
    if wrong:
        raise InvalidJob(f"{payload.get('class')}: {wrong}")
    if payload.get("log_level") is not None:  # callers and middleware may use Python's level names
        check_known({"log_level": payload["log_level"]}, job_name=payload["class"])
        payload["log_level"] = stored_level(payload["log_level"])
