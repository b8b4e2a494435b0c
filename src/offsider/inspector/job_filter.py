"""Which jobs are meant: by class, argument, error, tag, caller and age."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import cast

from offsider.core.clock import SYSTEM_CLOCK
from offsider.core.compression import COMPRESSED, may_hold
from offsider.core.payload import encode_text
from offsider.inspector.job_record import JobRecord

#: Letters that every JSON writer leaves as they are. Some escape ``/``, ``<``, ``>``, ``&`` and all beyond ASCII.
_AS_WRITTEN = re.compile(r"[A-Za-z0-9_.:@ -]+")
_WHOLE_NUMBER = re.compile(r"-?\d+")
_NUMBER_LIKE = re.compile(r"[-+0-9.eE]+")
_COMPRESSED = f'"{COMPRESSED}"'.encode()


@dataclass(frozen=True)
class JobFilter:
    """All that is given has to fit; letters are taken as they are, and upper and lower case differ.

    Attributes:
        text: stands anywhere in the job as it is stored.
        name: the stored name of the job, or the one inside its ActiveJob wrapper.
        argument: one of the arguments, at any depth: a string that holds this text, or a number, ``true``, ``false``
            or ``null`` that is exactly this.
        error: part of the class or the message of the last error.
        tag: one of its tags.
        caller: what pushed it: its ``meta.caller_id``.
        older_than_seconds: it was created (or else enqueued) longer ago. A job that tells no time does not fit.
        newer_than_seconds: it was created since then.
    """

    text: str = ""
    name: str = ""
    argument: str = ""
    error: str = ""
    tag: str = ""
    caller: str = ""
    older_than_seconds: float | None = None
    newer_than_seconds: float | None = None

    @property
    def empty(self) -> bool:
        """Whether every job fits."""
        return all(getattr(self, field.name) == field.default for field in fields(self))

    @cached_property
    def needle(self) -> str:
        """Letters that the stored bytes of every job that fits must hold; empty when none are known.

        They let most jobs be passed over without decoding them, by the server itself where it can match. An argument
        is none of them, since it may be compressed.
        """
        return _longest_run(self.text, self.name.partition("#")[0], self.error, self.tag, self.caller)

    @property
    def _argument_as_written(self) -> str:
        # A number may be written in several ways: 1e3 is 1000.0.
        if _WHOLE_NUMBER.fullmatch(self.argument) or not _NUMBER_LIKE.fullmatch(self.argument):
            return self.argument
        return ""

    def matches(self, record: JobRecord) -> bool:
        """Whether this job is meant."""
        return (
            self._may_fit(record.raw)
            and self._fits_text(record)
            and (not self.name or self.name in (record.name, record.display_class))
            and (not self.argument or self._fits_argument(record))
            and (not self.error or self.error in record.error_class or self.error in record.error_message)
            and (not self.tag or self.tag in record.tags)
            and (not self.caller or self.caller == record.caller)
            and self._fits_age(record)
        )

    def _may_fit(self, raw: bytes) -> bool:
        """Whether the bytes hold what those of every job that fits hold; it takes no decoding."""
        needle, argument = self._needles
        return needle in raw and (argument in raw or _COMPRESSED in raw)

    @cached_property
    def _needles(self) -> tuple[bytes, bytes]:
        return self.needle.encode(), _longest_run(self._argument_as_written).encode()

    def _fits_text(self, record: JobRecord) -> bool:
        if not self.text or self.text.encode("utf-8", "replace") in record.raw:
            return True
        # As it would be written without escapes, when somebody wrote them.
        return record.payload is not None and self.text in encode_text(record.payload)

    def _fits_argument(self, record: JobRecord) -> bool:
        if record.payload is not None and not may_hold(record.payload, self._needles[1]):
            return False
        return any(
            self.argument in leaf if isinstance(leaf, str) else self.argument == encode_text(leaf)
            for leaf in _leaves(record.arguments)
        )

    def _fits_age(self, record: JobRecord) -> bool:
        if self.older_than_seconds is None and self.newer_than_seconds is None:
            return True
        born = record.created_at if record.created_at is not None else record.enqueued_at
        if born is None:
            return False
        age = SYSTEM_CLOCK.now() - born
        old_enough = self.older_than_seconds is None or age > self.older_than_seconds
        return old_enough and (self.newer_than_seconds is None or age < self.newer_than_seconds)


def _longest_run(*texts: str) -> str:
    return max((run for text in texts for run in _AS_WRITTEN.findall(text)), key=len, default="")


def _leaves(value: object) -> Iterator[object]:
    """Every value that is no container, at any depth, without recursion."""
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += cast("dict[str, object]", item).values()
        elif isinstance(item, list | tuple):
            waiting += cast("list[object]", item)
        else:
            yield item
