"""A stored job as people look at it, whoever wrote it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from offsider.core.backtrace import inflate
from offsider.core.clock import SYSTEM_CLOCK
from offsider.core.compression import original_bytes, readable
from offsider.core.errors import MalformedPayload
from offsider.core.payload import JobPayload, decode, read_stamp
from offsider.inspector import display
from offsider.storage.queue_walk import digest

#: The first second that no calendar shows: the year 10,000.
_END_OF_TIME = 253_402_300_800
_LONGEST_ID = 200
#: More is no count: pages and columns are made for numbers that people can read.
_MOST_RETRIES = 1_000_000_000
#: Of longer arguments, when they are compressed, a list tells the size alone: a hundred of them would fill the memory.
_LONGEST_IN_LISTS = 250_000


class JobRecord:
    """One stored payload. It is decoded when somebody asks what it says, and no read of it raises.

    Args:
        raw: its bytes; they may be no job at all.
        queue: where it was found.
        position: in that queue, 0 for the job that runs next.

    Attributes:
        raw: the same bytes.
        position: the same; None when it was not found in a queue. Workers take jobs, so it goes down with time.
    """

    def __init__(self, raw: bytes, queue: str = "", position: int | None = None) -> None:
        self.raw = raw
        self.position = position
        self._queue = queue

    @cached_property
    def payload(self) -> JobPayload | None:
        """What the bytes say; None when they are no job."""
        try:
            return decode(self.raw)
        except MalformedPayload:
            return None

    @cached_property
    def _known(self) -> JobPayload:
        """What is shown in place of bytes that are no job."""
        return self.payload or {"class": "", "args": []}

    @property
    def _plain(self) -> JobPayload:
        """The same, with arguments that people can read. Not kept: a list of such jobs would hold them all at once."""
        return readable(self._known)

    @property
    def malformed(self) -> bool:
        """Whether the bytes are no job."""
        return self.payload is None

    @property
    def jid(self) -> str:
        """The job's id; empty when there is none."""
        return self._known.get("jid", "")

    @property
    def key_part(self) -> str:
        """What tells it from others at the same place: its id, or a digest of bytes that have none, or a huge one."""
        return self.jid if 0 < len(self.jid) <= _LONGEST_ID else digest(self.raw)

    @property
    def name(self) -> str:
        """The stored name of the job; empty when there is none."""
        return self._known["class"]

    @cached_property
    def display_class(self) -> str:
        """The name that its author knows: of the class inside an ActiveJob wrapper, ``Mailer#method`` for a mail."""
        return display.display_class(self._known)

    @property
    def args(self) -> list[Any]:
        """The arguments, expanded when they are stored compressed."""
        return self._plain["args"]

    @property
    def display_args(self) -> list[Any]:
        """The arguments that its author gave, out of their wrapper; an encrypted one is not shown."""
        return display.display_args(self._plain)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword-only arguments, of jobs in Python."""
        return self._plain.get("kwargs", {})

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """`args` and `kwargs` at once: compressed ones are expanded once."""
        plain = self._plain
        return plain["args"], plain.get("kwargs", {})

    @property
    def unlisted_bytes(self) -> int:
        """How long compressed arguments are that no list of jobs should expand; 0 when it may show them."""
        size_bytes = original_bytes(self._known)
        return size_bytes if size_bytes > _LONGEST_IN_LISTS else 0

    @property
    def queue(self) -> str:
        """The queue that the job belongs to; empty when nobody says."""
        return self._queue or self._known.get("queue", "")

    @property
    def bid(self) -> str:
        """The batch that the job is part of; empty when it is none's."""
        return self._text("bid")

    @property
    def tags(self) -> list[str]:
        tags: object = self._known.get("tags")
        return [tag for tag in cast("list[object]", tags) if isinstance(tag, str)] if isinstance(tags, list) else []

    @property
    def created_at(self) -> float | None:
        """Epoch seconds; None when unknown. The same for the other times."""
        return self._time("created_at")

    @property
    def enqueued_at(self) -> float | None:
        return self._time("enqueued_at")

    @property
    def failed_at(self) -> float | None:
        return self._time("failed_at")

    @property
    def retried_at(self) -> float | None:
        return self._time("retried_at")

    @property
    def retry_count(self) -> int | None:
        """How often it was retried: 0 after the first failure. None for a job that has never failed, or is odd."""
        count = self._known.get("retry_count")
        return count if count is not None and 0 <= count <= _MOST_RETRIES else None

    @property
    def error_class(self) -> str:
        """The class of the last error; empty when there was none."""
        return self._text("error_class")

    @property
    def error_message(self) -> str:
        return self._text("error_message")

    @cached_property
    def error_backtrace(self) -> list[str]:
        """The lines of the backtrace, inflated; empty when none was stored, or nothing that can be read."""
        stored: object = self._known.get("error_backtrace")
        if isinstance(stored, list):  # Sidekiq before 5.2.6 did not compress
            return [str(line) for line in cast("list[object]", stored)]
        try:
            return inflate(stored) if isinstance(stored, str) else []
        except ValueError:
            return []

    @property
    def latency_seconds(self) -> float:
        """How long ago it was put into its queue, or else created; 0 when neither is known."""
        since = self.enqueued_at
        if since is None:
            since = self.created_at
        return 0.0 if since is None else max(0.0, SYSTEM_CLOCK.now() - since)

    @property
    def caller(self) -> str | None:
        """What pushed it: a job or a web route, as ``meta.caller_id`` says; None when nobody wrote that down."""
        return self._text("meta.caller_id") or None

    @property
    def context(self) -> dict[str, Any]:
        """What travelled with it from where it was pushed: every ``meta.…`` key, and ``correlation_id``."""
        known = cast("dict[str, Any]", self._known)
        return {key: value for key, value in known.items() if key.startswith("meta.") or key == "correlation_id"}

    def __getitem__(self, key: str) -> Any:
        """A key of the payload; None when it is not there."""
        return cast("dict[str, Any]", self._known).get(key)

    def _text(self, key: str) -> str:
        value: object = self._known.get(key)
        return value if isinstance(value, str) else ""

    def _time(self, key: str) -> float | None:
        at = read_stamp(self._known.get(key))
        return at if at is not None and 0 <= at < _END_OF_TIME else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.raw[:40]!r} {self.jid}>"
