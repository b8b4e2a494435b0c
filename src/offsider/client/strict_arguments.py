"""Finds what JSON would change in a push: raises or warns, depending on ``client.strict_args``. No I/O."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import cast

from offsider.client.prepared import DeclaredJob
from offsider.config.config import Config
from offsider.core.arguments import Unsafe, are_plain, check_json, explain, odd_keys
from offsider.core.errors import InvalidArguments
from offsider.core.payload import JobPayload
from offsider.logs.structured import about_payload

logger = logging.getLogger("offsider")

_CONTAINERS = frozenset({dict, list, tuple})
_ARGUMENTS = frozenset({"args", "kwargs"})


class StrictArguments:
    """Checks the payloads that one configuration pushes. All methods raise InvalidArguments, or log a warning."""

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
