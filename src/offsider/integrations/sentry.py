"""Errors and traces for Sentry: ``config.use(Sentry())`` in workers and in clients, after ``sentry_sdk.init()``.

1. Each run has its own scope, with the tags ``job``, ``queue`` and ``jid`` and a context ``job``.
2. A run is a transaction; a push is a span of the current transaction, and the run continues its trace. The payload
   carries it as ``trace_propagation_headers``, as with Sentry's Ruby SDK.
3. Each failure is sent once. Signals such as ``Discard`` and interruptions by a stop of the worker are not sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from offsider.config.config import Config
from offsider.core.errors import HardTimeout, JobSignal, Shutdown, Waiting
from offsider.core.payload import JobPayload, read_stamp, shown_class
from offsider.integrations import missing
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import Middleware, Push
from offsider.worker.run.interrupt import caused_by

try:
    import sentry_sdk
    from sentry_sdk.utils import current_stacktrace
except ImportError as error:
    raise missing("offsider.integrations.sentry", "sentry") from error

if TYPE_CHECKING:
    from sentry_sdk.tracing import Span
    from sentry_sdk.types import Event, Hint

HEADERS = "trace_propagation_headers"
FLUSH_SECONDS = 2.0

_MARK = "_offsider_reported"


class Sentry:
    """Extension that sends runs and their errors to Sentry.

    Args:
        only_when_dead: send the error of a job only if it will not be retried.
        redact: receives the job's name and its arguments (a list and a dict of keyword arguments) and returns the
            value to send instead. Arguments, and the local variables of jobs, are sent only if the setting
            ``log.arguments`` is on and ``sentry_sdk.init`` has ``send_default_pii=True`` or
            ``data_collection={"queues": True}``.
    """

    name = "sentry"

    def __init__(
        self,
        *,
        only_when_dead: bool = False,
        redact: Callable[[str, list[Any], dict[str, Any]], object] | None = None,
    ) -> None:
        self._only_when_dead = only_when_dead
        self._redact = redact
        self._config: Config | None = None

    def install(self, config: Config) -> None:
        """Install outside of all other middleware in both chains, and add error and death handlers."""
        self._config = config
        _hide_own_variables()
        config.client_middleware.prepend(self.send)
        config.server_middleware.prepend(self.process)
        config.error_handlers.append(self._heard)
        config.death_handlers.append(self._died)
        config.on("exit", lambda: sentry_sdk.flush(timeout=FLUSH_SECONDS))

    def send(self, push: Push) -> Middleware:
        """Client middleware: create the span of a push, and add its trace to the payload."""
        if push.reason != "push" or not sentry_sdk.get_client().is_active():
            yield
            return
        payload = cast("dict[str, Any]", push.payload)
        with sentry_sdk.start_span(op="queue.publish", name=shown_class(payload)) as span:
            _describe(span, payload, payload.get("queue", "default"))
            found = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
            payload[HEADERS] = {name: value for name, value in found.items() if value}
            yield

    def process(self, job: JobContext) -> Middleware:
        """Server middleware: the scope and the transaction of a run."""
        payload = cast("dict[str, Any]", job.payload)
        headers = payload.get(HEADERS)
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            self._describe_job(scope, payload, job.queue)
            begun = sentry_sdk.continue_trace(
                cast("dict[str, Any]", headers) if isinstance(headers, dict) else {},
                op="queue.process",
                name=job.shown_name,
                source="task",
            )
            transaction = sentry_sdk.start_transaction(begun)
            _describe(transaction, payload, job.queue)
            _describe_run(transaction, job)
            transaction.__enter__()  # a `with` block would mark every exception as an error
            try:
                yield
            except BaseException as error:
                transaction.set_status(_status(error))
                if _is_failure(error) and not self._only_when_dead and not _was_late(error):
                    _capture(error)
                raise
            else:
                transaction.set_status("ok")
            finally:
                transaction.__exit__(None, None, None)

    def _heard(self, error: BaseException, context: Mapping[str, object]) -> None:
        """Error handler: report errors outside of the middleware, such as a job of an unknown class."""
        payload = context.get("job")
        is_run = payload is not None and "context" not in context
        if _is_captured(error) or (is_run and (self._only_when_dead or not _is_failure(error))):
            return
        self._report(error, cast("dict[str, Any]", payload) if isinstance(payload, dict) else {})

    def _died(self, payload: JobPayload, error: BaseException | None) -> None:
        """Death handler: report the error of a dead job if it was not sent yet."""
        if error is not None and _is_failure(error) and not _is_captured(error):
            self._report(error, cast("dict[str, Any]", payload))

    def _report(self, error: BaseException, payload: Mapping[str, Any]) -> None:
        with sentry_sdk.isolation_scope() as scope:
            if payload:
                self._describe_job(scope, payload, str(payload.get("queue", "")))
            _capture(error)

    def _describe_job(self, scope: sentry_sdk.Scope, payload: Mapping[str, Any], queue: str) -> None:
        name, jid = shown_class(payload), str(payload.get("jid", ""))
        scope.set_transaction_name(name, source="task")
        scope.set_tag("job", name)
        scope.set_tag("queue", queue)
        scope.set_tag("jid", jid)
        scope.set_context("job", self._context(payload, queue))
        if not self._wants_arguments() or payload.get("encrypt"):
            scope.add_event_processor(_without_variables)

    def _context(self, payload: Mapping[str, Any], queue: str) -> dict[str, Any]:
        context = {key: payload[key] for key in ("jid", "retry_count", "created_at", "tags") if key in payload}
        context |= {"class": shown_class(payload), "queue": queue}
        if self._wants_arguments():
            args: list[Any] = payload.get("args") or []
            kwargs: dict[str, Any] = payload.get("kwargs") or {}
            if self._redact is not None:
                context["arguments"] = self._redact(shown_class(payload), args, kwargs)
            else:
                context["arguments"] = {"args": args, "kwargs": kwargs} if kwargs else args
        return context

    def _wants_arguments(self) -> bool:
        return self._config is not None and self._config.log.arguments and _takes_personal_data()


def _describe(span: Span, payload: Mapping[str, Any], queue: str) -> None:
    span.set_data("messaging.system", "sidekiq")
    span.set_data("messaging.destination.name", queue)
    span.set_data("messaging.message.id", str(payload.get("jid", "")))


def _describe_run(span: Span, job: JobContext) -> None:
    span.set_data("messaging.message.retry.count", job.attempt - 1)
    enqueued_at = read_stamp(job.payload.get("enqueued_at"))
    if enqueued_at is not None:
        span.set_data("messaging.message.receive.latency", max(0.0, time.time() - enqueued_at) * 1000)


def _takes_personal_data() -> bool:
    """Whether Sentry is configured to receive job data, with ``send_default_pii`` or its successor."""
    client = sentry_sdk.get_client()
    wanted: Any = client.options.get("data_collection")
    if isinstance(wanted, dict) and "queues" in wanted:
        return bool(cast("dict[str, Any]", wanted)["queues"])
    return client.should_send_default_pii()


def _is_failure(error: BaseException) -> bool:
    return not isinstance(error, JobSignal) and not caused_by(Shutdown, error)


def _status(error: BaseException) -> str:
    if isinstance(error, JobSignal | Waiting):
        return "ok"
    return "aborted" if caused_by(Shutdown, error) else "internal_error"


def _capture(error: BaseException) -> None:
    with suppress(AttributeError, TypeError):  # an error with slots is sent twice at worst
        setattr(error, _MARK, True)
    sentry_sdk.capture_exception(error)


def _is_captured(error: BaseException) -> bool:
    return getattr(error, _MARK, False) is True


def _was_late(error: BaseException) -> bool:
    """Whether a hard timeout was already sent when the job's time was up, before its thread raised it."""
    return isinstance(error, HardTimeout) and _is_captured(error)


@cache
def _hide_own_variables() -> None:
    """Remove local variables of our frames, which contain payloads, from all events, including log messages."""
    sentry_sdk.get_global_scope().add_event_processor(_without_own_variables)


def _without_own_variables(event: Event, _hint: Hint) -> Event:
    options = sentry_sdk.get_client().options
    if options.get("attach_stacktrace") and event.keys().isdisjoint({"type", "exception", "stacktrace", "threads"}):
        # The SDK would add this after the last hook that can remove variables.
        stack = current_stacktrace(include_local_variables=options.get("include_local_variables", True))
        event["threads"] = {"values": [{"stacktrace": stack, "crashed": False, "current": True}]}
    for frame in _frames(event):
        if str(frame.get("module", "")).startswith("offsider."):
            frame.pop("vars", None)
    return event


def _without_variables(event: Event, _hint: Hint) -> Event:
    """Remove all local variables, which contain a job's arguments or values derived from them."""
    for frame in _frames(event):
        frame.pop("vars", None)
    return event


def _frames(event: Any) -> Iterator[dict[str, Any]]:
    for kind in ("exception", "threads"):
        for value in _listed(event, kind, "values"):
            yield from _listed(value, "stacktrace", "frames")


def _listed(value: Any, name: str, inner: str) -> list[dict[str, Any]]:
    outer: Any = value.get(name)
    inside: list[dict[str, Any]] | None = outer.get(inner) if outer else None
    return inside or []
