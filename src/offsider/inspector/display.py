"""A job as its author knows it: without the wrappers that Rails puts around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

WRAPPERS = frozenset({"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper", "Sidekiq::ActiveJob::Wrapper"})
_OLD_MAILER = "ActionMailer::DeliveryJob"
_MAILER = "ActionMailer::MailDeliveryJob"
_MAILER_ARGUMENTS = 3  # the mailer's class, its method, and "deliver_now"
ENCRYPTED = "[encrypted data]"


def display_class(payload: Mapping[str, Any]) -> str:
    """The class that the author wrote; for a mail ``Mailer#method``."""
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
    """The arguments that the author gave; an encrypted one is not shown."""
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
    """What a wrapper holds; empty when it does not say."""
    for said in (payload.get("wrapped"), _job(payload).get("job_class"), *payload["args"][:1]):
        if isinstance(said, str) and said:
            return said
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
    except RecursionError:  # nobody reads what is nested so deeply
        return arguments


def _plain(argument: object) -> object:
    """Without the marks of ActiveJob; a model is its global id."""
    if isinstance(argument, list):
        return [_plain(item) for item in cast("list[object]", argument)]
    if not isinstance(argument, dict):
        return argument
    fields = cast("dict[str, object]", argument)
    if len(fields) == 1 and "_aj_globalid" in fields:
        return fields["_aj_globalid"]
    return {name: _plain(value) for name, value in fields.items() if not name.startswith("_aj_")}
