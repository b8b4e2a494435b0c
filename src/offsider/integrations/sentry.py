"""Errors and traces for Sentry: ``config.use(Sentry())`` in workers and in who pushes, beside ``sentry_sdk.init()``.

1. A run has a scope of its own, with the tags ``job``, ``queue`` and ``jid`` and a context ``job``.
2. A run is a transaction; a push is a span of whatever it happens in, and its trace goes on in the run. It travels in
   the payload as ``trace_propagation_headers``, where Sentry's Ruby SDK has it too.
3. An error is sent once for each failure. What jobs raise on purpose, and what a stop of the worker causes, is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import HardTimeout, JobSignal
from offsider.core.payload import JobPayload, read_stamp
from offsider.integrations.missing import missing
from offsider.wiring.config import Config
from offsider.wiring.context import JobContext
from offsider.wiring.middleware import Push
from offsider.worker.interrupt import caused_by_shutdown

try:
    import sentry_sdk
except ImportError as error:
    raise missing("sentry", "sentry") from error

if TYPE_CHECKING:
    from sentry_sdk.tracing import Span
    from sentry_sdk.types import Event, Hint

HEADERS = "trace_propagation_headers"
FLUSH_SECONDS = 2.0

_MARK = "_offsider_reported"


class Sentry:
    """Extension that tells Sentry of runs and their errors.

    Args:
        only_when_dead: send the error of a job only when it will not be tried again.
        redact: gets the job's name and its arguments (a list, and a mapping of those by keyword) and answers what is
            sent in their place. Arguments are sent only where ``sentry_sdk.init`` was given ``send_default_pii=True``
            or ``data_collection={"queues": True}``.
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

    def install(self, config: Config) -> None:
        """Stand around everything else in both chains, and listen to errors and deaths."""
        config.client_middleware.prepend(self.send)
        config.server_middleware.prepend(self.process)
        config.error_handlers.append(self._heard)
        config.death_handlers.append(self._died)
        config.on("exit", lambda: sentry_sdk.flush(timeout=FLUSH_SECONDS))

    def send(self, push: Push, call_next: Callable[[Push], Push | None]) -> Push | None:
        """Client middleware: the span of a push, and its trace into the payload."""
        if push.reason != "push" or not sentry_sdk.get_client().is_active():
            return call_next(push)
        payload = cast("dict[str, Any]", push.payload)
        with sentry_sdk.start_span(op="queue.publish", name=str(payload.get("class", ""))) as span:
            _describe(span, payload, payload.get("queue", "default"))
            found = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
            payload[HEADERS] = {name: value for name, value in found.items() if value}
            return call_next(push)

    def process(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        """Server middleware: the scope and the transaction of a run."""
        payload = cast("dict[str, Any]", job.payload)
        headers = payload.get(HEADERS)
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            self._tell(scope, payload, job.queue)
            begun = sentry_sdk.continue_trace(
                cast("dict[str, Any]", headers) if isinstance(headers, dict) else {},
                op="queue.process",
                name=job.name,
                source="task",
            )
            transaction = sentry_sdk.start_transaction(begun)
            _describe(transaction, payload, job.queue)
            _describe_run(transaction, job)
            transaction.__enter__()  # in a `with` block whatever is raised would be an error
            try:
                result = call_next(job)
            except BaseException as error:
                transaction.set_status(_status(error))
                if _is_failure(error) and not self._only_when_dead and not _was_late(error):
                    _capture(error)
                raise
            else:
                transaction.set_status("ok")
                return result
            finally:
                transaction.__exit__(None, None, None)

    def _heard(self, error: BaseException, context: Mapping[str, object]) -> None:
        """Error handler: for what did not go through the middleware, such as a job of an unknown class."""
        payload = context.get("job")
        is_run = payload is not None and "context" not in context
        if _is_captured(error) or (is_run and (self._only_when_dead or not _is_failure(error))):
            return
        self._report(error, cast("dict[str, Any]", payload) if isinstance(payload, dict) else {})

    def _died(self, payload: JobPayload, error: BaseException | None) -> None:
        """Death handler: the last word on a job."""
        if error is not None and _is_failure(error) and not _is_captured(error):
            self._report(error, cast("dict[str, Any]", payload))

    def _report(self, error: BaseException, payload: Mapping[str, Any]) -> None:
        with sentry_sdk.isolation_scope() as scope:
            if payload:
                self._tell(scope, payload, str(payload.get("queue", "")))
            _capture(error)

    def _tell(self, scope: sentry_sdk.Scope, payload: Mapping[str, Any], queue: str) -> None:
        name, jid = str(payload.get("class", "")), str(payload.get("jid", ""))
        scope.set_transaction_name(name, source="task")
        scope.set_tag("job", name)
        scope.set_tag("queue", queue)
        scope.set_tag("jid", jid)
        scope.set_context("job", self._context(payload, queue))
        scope.add_event_processor(_without_own_variables)

    def _context(self, payload: Mapping[str, Any], queue: str) -> dict[str, Any]:
        told = {key: payload[key] for key in ("class", "jid", "retry_count", "created_at", "tags") if key in payload}
        told["queue"] = queue
        if _wants_arguments():
            args: list[Any] = payload.get("args") or []
            kwargs: dict[str, Any] = payload.get("kwargs") or {}
            if self._redact is not None:
                told["arguments"] = self._redact(str(payload.get("class", "")), args, kwargs)
            else:
                told["arguments"] = {"args": args, "kwargs": kwargs} if kwargs else args
        return told


def _describe(span: Span, payload: Mapping[str, Any], queue: str) -> None:
    span.set_data("messaging.system", "sidekiq")
    span.set_data("messaging.destination.name", queue)
    span.set_data("messaging.message.id", str(payload.get("jid", "")))


def _describe_run(span: Span, job: JobContext) -> None:
    span.set_data("messaging.message.retry.count", job.attempt - 1)
    enqueued_at = read_stamp(job.payload.get("enqueued_at"))
    if enqueued_at is not None:
        span.set_data("messaging.message.receive.latency", max(0.0, time.time() - enqueued_at) * 1000)


def _wants_arguments() -> bool:
    """Whether Sentry was set up to be told what jobs are about: by ``send_default_pii`` or its successor."""
    client = sentry_sdk.get_client()
    wanted: Any = client.options.get("data_collection")
    if isinstance(wanted, dict) and "queues" in wanted:
        return bool(cast("dict[str, Any]", wanted)["queues"])
    return client.should_send_default_pii()


def _is_failure(error: BaseException) -> bool:
    return not isinstance(error, JobSignal) and not caused_by_shutdown(error)


def _status(error: BaseException) -> str:
    if isinstance(error, JobSignal):
        return "ok"
    return "aborted" if caused_by_shutdown(error) else "internal_error"


def _capture(error: BaseException) -> None:
    with suppress(AttributeError, TypeError):  # an error with slots is told twice at worst
        setattr(error, _MARK, True)
    sentry_sdk.capture_exception(error)


def _is_captured(error: BaseException) -> bool:
    return getattr(error, _MARK, False) is True


def _was_late(error: BaseException) -> bool:
    """Whether it was told when the time of the job was up, while its thread had not noticed yet."""
    return isinstance(error, HardTimeout) and _is_captured(error)


def _without_own_variables(event: Event, _hint: Hint) -> Event:
    """Our frames hold the whole payload, and arguments are sent only where they may be."""
    for told in _listed(event, "exception", "values"):
        for frame in _listed(told, "stacktrace", "frames"):
            if str(frame.get("module", "")).startswith("offsider."):
                frame.pop("vars", None)
    return event


def _listed(told: Any, name: str, inner: str) -> list[dict[str, Any]]:
    outer: Any = told.get(name)
    inside: list[dict[str, Any]] | None = outer.get(inner) if outer else None
    return inside or []
