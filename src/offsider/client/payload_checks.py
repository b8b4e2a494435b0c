"""Checks of the payloads that one configuration pushes: what JSON would change, and their size. No I/O."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import cast

from offsider.client.prepared import DeclaredJob
from offsider.config.config import Config
from offsider.core.arguments import Unsafe, are_plain, check_json, explain, odd_keys
from offsider.core.compression import compress
from offsider.core.errors import InvalidArguments, PayloadTooLarge
from offsider.core.payload import JobPayload, encode
from offsider.logs.structured import about_payload
from offsider.runtime.events import LargePayload

logger = logging.getLogger("offsider")

#: Minimum size of the payloads that are compressed: below, the server saves little for the CPU time.
COMPRESS_BYTES = 100_000
_CONTAINERS = frozenset({dict, list, tuple})
_ARGUMENTS = frozenset({"args", "kwargs"})


class StrictArguments:
    """Finds what JSON would change. All methods raise InvalidArguments, or log a warning: ``client.strict_args``."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def check(self, payload: JobPayload, job: object | None) -> None:
        """Check the arguments of a job; ``job`` is its declaration, which knows the names of parameters."""
        if self._config.client.strict_args == "off":
            return
        if are_plain(payload["args"]) and "kwargs" not in payload:  # most jobs
            return
        found = _unsafe_argument(payload, job)
        if found is None:
            return
        name, unsafe = found
        if self._config.client.strict_args != "raise":
            unsafe = replace(unsafe, path=())  # keys of dicts are data, which must not reach a log
        self._complain(explain(payload["class"], name, unsafe), payload)

    def check_own_keys(self, payload: JobPayload) -> None:
        """Check the caller's own keys. JSON may change their values, but not the keys of dicts, which may collide."""
        if self._config.client.strict_args == "off":
            return
        for name, value in payload.items():
            if type(value) in _CONTAINERS and name not in _ARGUMENTS and (keys := odd_keys(value)):
                kind = type(keys[0]).__name__
                self._complain(f"{payload['class']}: {name!r} has a key of type {kind}; JSON keys are strings", payload)

    def _complain(self, message: str, payload: JobPayload) -> None:
        if self._config.client.strict_args == "raise":
            raise InvalidArguments(message)
        logger.warning("%s", message, extra={"fields": about_payload(payload)})


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


class LargePayloads:
    """Compresses, reports or rejects large payloads at their first push.

    1. With ``large_payloads = "compress"``, arguments of jobs declared in Python are compressed.
    2. A payload that still exceeds ``payload_limit_bytes`` is rejected, unless its job has ``big_payload``.
    3. A large payload emits the event ``large_payload``; if it is stored uncompressed, a warning is logged.

    Callers skip this for payloads of up to `core.compression.SMALL_BYTES`, as most are.
    """

    def __init__(self, config: Config) -> None:
        self._config = config

    def checked(self, payload: JobPayload, raw: bytes, job: object | None) -> bytes:
        """Return the bytes to store.

        Args:
            payload: the job, which is not modified.
            raw: its bytes.
            job: its declaration; None for a job of another program, which is never compressed.

        Raises:
            PayloadTooLarge: the payload exceeds the limit.
        """
        declared = cast("DeclaredJob | None", job)
        stored = self._packed(payload, raw, declared)
        may_be_large = declared is not None and declared.big_payload
        if not may_be_large:
            self._check_limit(payload, stored)
        if self._config.client.large_payloads != "off":
            self._report(payload, len(raw), len(stored), expected=may_be_large)
        return stored

    def check(self, payload: JobPayload, raw: bytes, job: object | None) -> None:
        """Raise PayloadTooLarge if `checked` would raise it for the same arguments."""
        declared = cast("DeclaredJob | None", job)
        if self._config.client.payload_limit_bytes and not (declared is not None and declared.big_payload):
            self._check_limit(payload, self._packed(payload, raw, declared))

    def _packed(self, payload: JobPayload, raw: bytes, job: DeclaredJob | None) -> bytes:
        client = self._config.client
        if client.large_payloads != "compress" or len(raw) < COMPRESS_BYTES:
            return raw
        if job is None or job.shared_with_ruby:  # a Ruby worker could not read it
            return raw
        packed = encode(compress(payload))
        return packed if len(packed) < len(raw) else raw

    def _check_limit(self, payload: JobPayload, stored: bytes) -> None:
        limit = self._config.client.payload_limit_bytes
        if limit and len(stored) > limit:
            raise PayloadTooLarge(payload["class"], len(stored), limit)

    def _report(self, payload: JobPayload, size_bytes: int, stored_bytes: int, *, expected: bool) -> None:
        large = self._config.client.large_payload_bytes
        if size_bytes <= large and size_bytes == stored_bytes:
            return
        name, jid, queue = payload["class"], payload.get("jid", ""), payload.get("queue", "")
        if stored_bytes > large and not expected:
            logger.warning(
                "%s: the payload of job %s has %d bytes; pass an id and load the data in the job",
                name,
                jid,
                stored_bytes,
                extra={"fields": {**about_payload(payload), "job_size_bytes": stored_bytes}},
            )
        self._config.events.emit("large_payload", LargePayload(name, jid, queue, size_bytes, stored_bytes))
