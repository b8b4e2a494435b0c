"""Class and arguments of a job for display, without the wrappers of ActiveJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

WRAPPERS = frozenset({"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"})
_OLD_MAILER = "ActionMailer::DeliveryJob"
_MAILER = "ActionMailer::MailDeliveryJob"
_MAILER_ARGUMENTS = 3  # the mailer's class, its method, and "deliver_now"
ENCRYPTED = "[encrypted data]"


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
