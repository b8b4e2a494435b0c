"""Values of the pushing side that hold in the job as well, in the form of Sidekiq's ``CurrentAttributes.persist``.

1. A push is given what the variables hold: the first source under ``cattr``, the next ones under ``cattr_1`` and so
   on. What a payload has already stays, so that a retry does not change it.
2. A run, or a move of a stored job through client middleware, sees the variables as the payload says.

Ruby reads what is written here, and the other way round: plain JSON objects of attributes. Ruby objects that Rails
stores as a reference arrive as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import ConfigurationError

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.wiring.middleware import Push

_KEY = "cattr"


class CurrentAttributes:
    """Extension that carries context variables into jobs.

    ::

        class Current:
            tenant_id: ContextVar[int | None] = ContextVar("tenant_id", default=None)

        config.use(CurrentAttributes(Current))

    Args:
        sources: for each of Ruby's classes in its order, an object or a class whose attributes are context variables;
            or one variable by itself. Their values must be JSON; a variable without a value, or with None, is left
            out.

    Raises:
        ConfigurationError: a source holds no variable.
    """

    name = "current_attributes"

    def __init__(self, *sources: object) -> None:
        self._sources = {_key_at(index): _variables_of(source) for index, source in enumerate(sources)}
        if not self._sources:
            raise ConfigurationError("CurrentAttributes needs a source: a class with context variables, or one of them")

    def install(self, config: Config) -> None:
        """Pushing, and running outermost: what other middleware does shall see the values."""
        config.client_middleware.add(self._save)
        config.server_middleware.prepend(self._load)

    def _save(self, push: Push, call_next: Callable[[Push], Push | None]) -> Push | None:
        payload = cast("dict[str, Any]", push.payload)
        if push.reason != "push":
            with self._loaded(payload):
                return call_next(push)
        for key, variables in self._sources.items():
            values = {name: variable.get(None) for name, variable in variables.items()}
            present = {name: value for name, value in values.items() if value is not None}
            if present:
                payload.setdefault(key, present)
        return call_next(push)

    def _load(self, job: JobContext, call_next: Callable[[JobContext], object]) -> object:
        with self._loaded(cast("Mapping[str, Any]", job.payload)):
            return call_next(job)

    @contextmanager
    def _loaded(self, payload: Mapping[str, Any]) -> Generator[None, None, None]:
        """The variables as a payload says, and as nobody has set them where it says nothing.

        Else a job would see what another one has left behind in its thread.
        """
        tokens = [
            (variable, variable.set(_attributes(payload.get(key)).get(name, _default_of(variable))))
            for key, variables in self._sources.items()
            for name, variable in variables.items()
        ]
        try:
            yield
        finally:
            for variable, token in reversed(tokens):
                variable.reset(token)


def _key_at(index: int) -> str:
    return f"{_KEY}_{index}" if index else _KEY


def _attributes(stored: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", stored) if isinstance(stored, dict) else {}


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
    """What a variable holds where nobody has set it; None for one that then holds nothing."""
    try:
        return Context().run(variable.get)
    except LookupError:
        return None
