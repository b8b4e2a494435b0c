"""A stored job for display, written by any client; without the wrappers of ActiveJob."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from offsider.core.clock import END_OF_TIME, SYSTEM_CLOCK
from offsider.core.compression import expand_backtrace, original_bytes, readable
from offsider.core.malformed import unwrap, wrapper_of
from offsider.core.normalize import normalize
from offsider.core.payload import JobPayload, decode_or_none, expires_at, read_stamp
from offsider.runtime.propagation import origin_of, tenant_of
from offsider.storage.hashes import text_field
from offsider.storage.queue_walk import digest

_MAX_ID_LETTERS = 200
#: A larger retry count is invalid: pages and columns are made for readable numbers.
_MAX_RETRIES = 1_000_000_000
#: For longer compressed arguments lists show only the size: expanding a hundred of them would use too much memory.
_MAX_LISTED_BYTES = 250_000
WRAPPERS = frozenset({"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"})
_OLD_MAILER = "ActionMailer::DeliveryJob"
_MAILER = "ActionMailer::MailDeliveryJob"
_MAILER_ARGUMENTS = 3  # the mailer's class, its method, and "deliver_now"
ENCRYPTED = "[encrypted data]"


class JobRecord:
    """One stored payload, decoded on first use. Reading an attribute never raises an error.

    Args:
        raw: stored bytes, possibly malformed.
        queue: queue in which it was found.
        position: position in that queue, 0 for the next job.
        score: score in the set in which it was found.

    Attributes:
        raw: stored bytes.
        position: position at the time of the read; None if it was not read from a queue. It decreases as workers
            claim jobs.
        score: score in its set, in epoch seconds; 0 outside of a set.
    """

    def __init__(self, raw: bytes, queue: str = "", position: int | None = None, score: float = 0.0) -> None:
        self.raw = raw
        self.position = position
        self.score = score
        self._queue = queue

    @cached_property
    def payload(self) -> JobPayload | None:
        """The decoded payload; None if malformed."""
        return decode_or_none(self.raw)

    @cached_property
    def _known(self) -> JobPayload:
        """The payload to show: with normalized options, or the wrapper of a malformed payload."""
        payload = wrapper_of(self.raw) if self.payload is None else self.payload
        return {"class": "", "args": []} if payload is None else normalize(payload)

    @property
    def _plain(self) -> JobPayload:
        """The same with expanded arguments. Not cached: a list of such jobs would keep them all in memory."""
        return readable(self._known)

    @property
    def malformed(self) -> bool:
        """Whether the bytes are not a valid job."""
        return self.payload is None

    @property
    def unwrapped(self) -> bytes:
        """The original bytes of a malformed payload, which the dead set wraps; otherwise `raw`."""
        found = unwrap(self.raw)
        return self.raw if found is None else found

    @property
    def jid(self) -> str:
        """The ID of the job; empty if it has none."""
        return self._known.get("jid", "")

    @property
    def key_part(self) -> str:
        """Identifies it among jobs of the same place: its ID, or a digest if the ID is missing or too long."""
        return self.jid if 0 < len(self.jid) <= _MAX_ID_LETTERS else digest(self.raw)

    @property
    def name(self) -> str:
        """The stored name of the job; empty if it has none."""
        return self._known["class"]

    @cached_property
    def display_class(self) -> str:
        """The name to display: the class inside an ActiveJob wrapper, ``Mailer#method`` for a mail."""
        return display_class(self._known)

    @property
    def args(self) -> list[Any]:
        """The arguments, expanded if they are stored compressed."""
        return self._plain["args"]

    @property
    def display_args(self) -> list[Any]:
        """The arguments without a wrapper; an encrypted argument is hidden."""
        return display_args(self._plain)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword-only arguments; Python jobs only."""
        return self._plain.get("kwargs", {})

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """`args` and `kwargs`; compressed arguments are expanded only once."""
        plain = self._plain
        return plain["args"], plain.get("kwargs", {})

    @property
    def unlisted_bytes(self) -> int:
        """Size of compressed arguments that are too large for lists to expand; 0 if lists may show them."""
        size_bytes = original_bytes(self._known)
        return size_bytes if size_bytes > _MAX_LISTED_BYTES else 0

    @property
    def queue(self) -> str:
        """The queue of the job; empty if unknown."""
        return self._queue or self._known.get("queue", "")

    @property
    def bid(self) -> str:
        """The ID of the batch of the job; empty if it is not in a batch."""
        return self._text("bid")

    @property
    def tags(self) -> list[str]:
        """The tags; empty if there are none or they are malformed."""
        tags: object = self._known.get("tags")
        return [tag for tag in cast("list[object]", tags) if isinstance(tag, str)] if isinstance(tags, list) else []

    @property
    def created_at(self) -> float | None:
        """Epoch seconds; None if unknown. The same for the other times."""
        return self._time("created_at")

    @property
    def enqueued_at(self) -> float | None:
        """When it was pushed to its queue; see `created_at`."""
        return self._time("enqueued_at")

    @property
    def failed_at(self) -> float | None:
        """When it failed for the first time; see `created_at`."""
        return self._time("failed_at")

    @property
    def retried_at(self) -> float | None:
        """When its last retry failed; see `created_at`."""
        return self._time("retried_at")

    @property
    def last_failed_at(self) -> float | None:
        """When it failed last; see `created_at`."""
        return self.failed_at if self.retried_at is None else self.retried_at

    @property
    def died_at(self) -> float | None:
        """When it was moved to the dead set; None elsewhere."""
        return None

    @property
    def due_at(self) -> float | None:
        """When it is due in the schedule or the retry set; None elsewhere."""
        return None

    @property
    def expires_at(self) -> float | None:
        """When a worker deletes the job instead of starting it (``expires_in``); None if never."""
        return expires_at(self._known)

    @property
    def retry_count(self) -> int | None:
        """Number of retries: 0 after the first failure. None for a job that has never failed, or an invalid count."""
        count = self._known.get("retry_count")
        return count if count is not None and 0 <= count <= _MAX_RETRIES else None

    @property
    def error_class(self) -> str:
        """The class of the last error; empty if there was none."""
        return self._text("error_class")

    @property
    def error_message(self) -> str:
        """The message of the last error; empty if there was none."""
        return self._text("error_message")

    @property
    def error_frame(self) -> str:
        """The top application frame of the last error, as ``file:function``; empty if unknown, as for Ruby's jobs."""
        return self._text("error_frame")

    @cached_property
    def error_backtrace(self) -> list[str]:
        """The lines of the backtrace, inflated; empty if none is stored or it cannot be decoded."""
        stored: object = self._known.get("error_backtrace")
        if isinstance(stored, list):  # Sidekiq before 5.2.6 did not compress
            return [str(line) for line in cast("list[object]", stored)]
        try:
            return expand_backtrace(stored) if isinstance(stored, str) else []
        except ValueError:
            return []

    @property
    def latency_seconds(self) -> float:
        """Seconds since the job was enqueued, or else created; 0 if both are unknown."""
        since = self.created_at if self.enqueued_at is None else self.enqueued_at
        return 0.0 if since is None else max(0.0, SYSTEM_CLOCK.now() - since)

    @property
    def caller(self) -> str | None:
        """The job or web route that pushed it, from ``meta.caller_id``; None if unknown."""
        return self._text("meta.caller_id") or None

    @property
    def tenant(self) -> str:
        """The tenant for which it was pushed, see `propagation.TENANTS`; empty if unknown."""
        return tenant_of(self._known)

    @property
    def user(self) -> str:
        """The user for whom it was pushed, from ``meta.user``; empty if unknown."""
        return origin_of(self._known)[2]

    @property
    def context(self) -> dict[str, Any]:
        """The context of its push: every ``meta.…`` key, and ``correlation_id``."""
        known = cast("dict[str, Any]", self._known)
        return {key: value for key, value in known.items() if key.startswith("meta.") or key == "correlation_id"}

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key of the payload; None if it is missing."""
        return cast("dict[str, Any]", self._known).get(key)

    def _text(self, key: str) -> str:
        return text_field(self._known.get(key))

    def _time(self, key: str) -> float | None:
        at = read_stamp(self._known.get(key))
        return at if at is not None and 0 <= at < END_OF_TIME else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.raw[:40]!r} {self.jid}>"


def display_class(payload: Mapping[str, Any]) -> str:
    """Return the class without a wrapper; ``Mailer#method`` for a mail."""
    shown: object = payload.get("display_class")
    if isinstance(shown, str) and shown:
        return shown
    name: str = payload["class"]
    if name not in WRAPPERS:
        return name
    wrapped = _wrapped(payload)
    if wrapped in (_OLD_MAILER, _MAILER):
        return "#".join(str(part) for part in _arguments(payload)[:2]) or wrapped
    return wrapped or name


def display_args(payload: Mapping[str, Any]) -> list[Any]:
    """Return the arguments without a wrapper; an encrypted argument is hidden."""
    args: list[Any] = payload["args"]
    if payload["class"] not in WRAPPERS:
        return [*args[:-1], ENCRYPTED] if payload.get("encrypt") and args else args
    wrapped = _wrapped(payload)
    given = _all_plain(_arguments(payload))
    if wrapped not in (_OLD_MAILER, _MAILER):
        return given
    given = given[_MAILER_ARGUMENTS:]
    if wrapped == _MAILER and given and isinstance(given[0], dict):
        mail = cast("dict[str, object]", given[0])
        return [mail.get("params"), mail.get("args")]
    return given


def _wrapped(payload: Mapping[str, Any]) -> str:
    """Return the class inside a wrapper; empty if unknown."""
    for name in (payload.get("wrapped"), _job(payload).get("job_class"), *payload["args"][:1]):
        if isinstance(name, str) and name:
            return name
    return ""


def _job(payload: Mapping[str, Any]) -> dict[str, Any]:
    args: list[Any] = payload["args"]
    return cast("dict[str, Any]", args[0]) if args and isinstance(args[0], dict) else {}


def _arguments(payload: Mapping[str, Any]) -> list[object]:
    arguments: object = _job(payload).get("arguments")
    return cast("list[object]", arguments) if isinstance(arguments, list) else []


def _all_plain(arguments: list[object]) -> list[object]:
    try:
        return [_plain(argument) for argument in arguments]
    except RecursionError:  # too deeply nested to display
        return arguments


def _plain(argument: object) -> object:
    """Remove ActiveJob's markers; a model becomes its global ID."""
    if isinstance(argument, list):
        return [_plain(item) for item in cast("list[object]", argument)]
    if not isinstance(argument, dict):
        return argument
    fields = cast("dict[str, object]", argument)
    if len(fields) == 1 and "_aj_globalid" in fields:
        return fields["_aj_globalid"]
    return {name: _plain(value) for name, value in fields.items() if not name.startswith("_aj_")}
