"""Context variables that travel from the pushing process to the job, like Sidekiq's ``CurrentAttributes.persist``.

1. A push stores the values of the variables: the first source under ``cattr``, the next ones under ``cattr_1`` and
   so on. Values already in the payload stay, so that a retry does not change them.
2. A run sets the variables from the payload; so does a move of a stored job through client middleware. Each key that
   cannot be read is logged, and its variables keep their defaults. Each value that stays in its stored form is logged.

With wire version 8 the format is Sidekiq 8's, a list of pairs with the values of `offsider.core.active_job`; with
earlier versions, a JSON object. Both formats are read with every wire version.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import Context, ContextVar, Token
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offsider.core import active_job
from offsider.core.errors import ConfigurationError, InvalidArguments
from offsider.core.payload import shown_class
from offsider.core.wording import first_time
from offsider.runtime.middleware import sets_context

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware, Push

logger = logging.getLogger("offsider")

_KEY = "cattr"
#: First wire version that stores attributes as a list of pairs.
_PAIRS_SINCE = 8
_Stored: TypeAlias = Mapping[str, Mapping[str, object]]
#: Serialized values of the current context, by key and name.
_stored: ContextVar[_Stored] = ContextVar("offsider_current_attributes", default={})  # noqa: B039  # never changed


class CurrentAttributes:
    """Extension that carries context variables into jobs.

    ::

        class Current:
            tenant_id: ContextVar[int | None] = ContextVar("tenant_id", default=None)

        config.use(CurrentAttributes(Current))

    Args:
        sources: for each of Ruby's classes, in the same order, an object or class whose attributes are context
            variables, or a single variable. Values must be JSON, or with ``redis.wire_version`` 8 also a date, an aware
            datetime, a timedelta or a Decimal. A variable without a value, or with None, is not stored.

    Raises:
        ConfigurationError: a source has no context variable.
    """

    name = "current_attributes"

    def __init__(self, *sources: object) -> None:
        self._sources = {_key_at(index): _variables_of(source) for index, source in enumerate(sources)}
        if not self._sources:
            raise ConfigurationError(
                "CurrentAttributes needs a source: a class with context variables, or one variable"
            )

    def install(self, config: Config) -> None:
        """Add client middleware, and server middleware as the outermost, so that other middleware sees the values."""
        self._config = config
        config.client_middleware.add(self._save)
        config.server_middleware.prepend(self._load)

    def _save(self, push: Push) -> Middleware:
        payload = cast("dict[str, Any]", push.payload)
        if push.reason != "push":
            yield from self._loaded(payload)
            return
        for key, variables in self._sources.items():
            values = {name: variable.get(None) for name, variable in variables.items()}
            present = {name: value for name, value in values.items() if value is not None}
            if present and key not in payload:
                payload[key] = self._written(push, key, present)
        yield

    def _written(self, push: Push, key: str, values: Mapping[str, Any]) -> object:
        server = self._config.servers[push.server] if push.server else self._config.redis
        if server.wire_version < _PAIRS_SINCE:
            return values
        return [[active_job.symbol(name), _form(push, key, name, value)] for name, value in values.items()]

    @sets_context
    def _load(self, job: JobContext) -> Middleware:
        return (yield from self._loaded(cast("Mapping[str, Any]", job.payload)))

    def _loaded(self, payload: Mapping[str, Any]) -> Middleware:
        """Set the variables from a payload, and all others to their defaults.

        Otherwise a job would see values that another job left in its thread.
        """
        stored = {key: _pairs(payload, key) for key in self._sources}
        tokens: list[tuple[ContextVar[Any], Token[Any]]] = [(_stored, _stored.set(stored))]
        for key, variables in self._sources.items():
            for name, variable in variables.items():
                tokens.append((variable, variable.set(_value(payload, key, stored[key], name, variable))))
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)


def _key_at(index: int) -> str:
    return f"{_KEY}_{index}" if index else _KEY


def _form(push: Push, key: str, name: str, value: object) -> object:
    """Serialize a value; an unchanged value from the payload of the running job keeps its stored form.

    So Ruby's months, symbols and nanoseconds survive a job in Python.
    """
    stored = _stored.get().get(key, {})
    try:
        if name in stored and active_job.read(stored[name])[0] == value:
            return stored[name]
        return active_job.write(value)
    except (TypeError, RecursionError) as error:
        why = "contains itself or is nested too deeply" if isinstance(error, RecursionError) else f"is of type {error}"
        raise InvalidArguments(
            f"{push.payload['class']}: the context variable {name!r} cannot be stored under {key!r}: it {why}; "
            f"set it to a JSON value, a date, an aware datetime, a timedelta or a Decimal"
        ) from None


def _pairs(payload: Mapping[str, Any], key: str) -> Mapping[str, object]:
    stored = payload.get(key)
    if stored is None:
        return {}
    try:
        values, nameless = active_job.read_pairs(stored)
    except ValueError as error:
        _warn(payload, f"{key!r} is neither an object nor a list of pairs but {error}; its attributes have defaults")
        return {}
    if nameless:
        _warn(payload, f"{key!r} has an item that is not a pair of name and value, which is ignored")
    return values


def _value(
    payload: Mapping[str, Any], key: str, stored: Mapping[str, object], name: str, variable: ContextVar[Any]
) -> object:
    if name not in stored:
        return _default_of(variable)
    value, unread = active_job.read(stored[name])
    for kind in unread:
        _warn(payload, f"{name!r} in {key!r} cannot be read as {kind}; it keeps its serialized form")
    return value


def _warn(payload: Mapping[str, Any], message: str) -> None:
    if first_time("cattr", shown_class(payload), message):
        fields = {name: payload[name] for name in ("jid", "class") if name in payload}
        logger.warning("CurrentAttributes: %s (logged once per class)", message, extra={"fields": fields})


def _variables_of(source: object) -> dict[str, ContextVar[Any]]:
    found: dict[str, Any] = {name: getattr(source, name) for name in dir(source) if not name.startswith("_")}
    if isinstance(source, ContextVar):
        found = {source.name: source}
    variables: dict[str, ContextVar[Any]] = {name: value for name, value in found.items() if _is_variable(value)}
    if not variables:
        raise ConfigurationError(f"CurrentAttributes: {source!r} has no attribute that is a ContextVar")
    return variables


def _is_variable(value: object) -> bool:
    return isinstance(value, ContextVar)


def _default_of(variable: ContextVar[Any]) -> object:
    """Return the default of a variable; None if it has no default."""
    try:
        return Context().run(variable.get)
    except LookupError:
        return None
