"""Rich arguments by annotation: dates, UUIDs, decimals, enums, dataclasses and models, stored as plain JSON.

The job option ``codec="annotations"``. msgspec converts between JSON and annotations (see its page "Supported Types");
pydantic models convert themselves. At the push the JSON form is also read back, so that an argument that does not fit
raises in the program that pushes, and not in the worker.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Optional, cast

from offsider.core.arguments import StepResult
from offsider.core.errors import ConfigurationError, InvalidArguments, InvalidJob

try:
    import msgspec
    from msgspec.inspect import (
        CustomType,
        DataclassType,
        DateTimeType,
        FrozenSetType,
        SetType,
        StructType,
        type_info,
    )
except ImportError as error:
    raise ConfigurationError('codec="annotations" needs msgspec: pip install "offsider[codec]"') from error


class AnnotationCodec:
    """Converts the arguments of one job.

    Args:
        name: job name for messages.
        function: the function with the annotations.
        parameters: its parameters, without ``self``.

    Raises:
        InvalidJob: an annotation cannot be resolved, or not be carried as JSON.
    """

    def __init__(self, name: str, function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> None:
        hints = _hints(name, function)
        self._by_name: dict[str, _Carrier] = {}
        self._by_position: list[_Carrier] = []
        self._rest = self._others = _Carrier(name, "args", Any)
        for parameter in parameters:
            annotation: Any = hints.get(parameter.name, Any)
            if parameter.default is None:
                annotation = Optional[annotation]  # noqa: UP045 - the annotation is a value
            carrier = _Carrier(name, parameter.name, annotation)
            match parameter.kind:
                case parameter.VAR_POSITIONAL:
                    self._rest = carrier
                case parameter.VAR_KEYWORD:
                    self._others = carrier
                case parameter.KEYWORD_ONLY:
                    self._by_name[parameter.name] = carrier
                case _:
                    self._by_position.append(carrier)

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments as plain JSON. Values that already have the JSON form are accepted too.

        Raises:
            InvalidArguments: an argument does not fit its annotation, or is a naive datetime.
        """
        return (
            [carrier.encode(value) for carrier, value in self._positional(args)],
            {name: self._by_name.get(name, self._others).encode(value) for name, value in kwargs.items()},
        )

    def decode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return stored arguments as the types of the annotations. Raises InvalidArguments as `encode` does."""
        return (
            [carrier.decode(value) for carrier, value in self._positional(args)],
            {name: self._by_name.get(name, self._others).decode(value) for name, value in kwargs.items()},
        )

    def _positional(self, args: Sequence[Any]) -> Iterator[tuple[_Carrier, Any]]:
        for position, value in enumerate(args):
            yield (self._by_position[position] if position < len(self._by_position) else self._rest), value


class _Carrier:
    """One parameter: converts its values."""

    def __init__(self, job: str, name: str, annotation: Any) -> None:
        self._annotation = annotation
        self._what = f"{job}: argument {name!r} does not fit its annotation {_shown(annotation)}"
        self._free = annotation in (Any, object)
        try:
            # The decoder refuses unions that JSON cannot tell apart, which the description accepts.
            msgspec.json.Decoder(annotation, dec_hook=_load)
            parts = list(_parts(type_info(annotation)))
        except TypeError as error:
            raise InvalidJob(_refusal(job, name, annotation, str(error))) from None
        for part in parts:
            if isinstance(part, CustomType) and part.cls is not object and not _is_model(part.cls):
                raise InvalidJob(_refusal(job, name, annotation, f"{_shown(part.cls)} has no JSON form"))
        self._has_times = any(isinstance(part, DateTimeType) for part in parts)
        # An object of a subclass may have more fields. The order of a set may change.
        has_fields = any(isinstance(part, CustomType | DataclassType | StructType) for part in parts)
        self._may_lose = has_fields and not any(isinstance(part, SetType | FrozenSetType) for part in parts)

    def encode(self, value: Any) -> Any:
        if self._free or isinstance(value, StepResult):
            return value
        try:
            plain = _plain(value)
            read = self._check(plain)
            if self._may_lose and plain != value:
                _check_fields(plain, _plain(read))
        except (TypeError, ValueError) as error:
            raise self._refused(error) from None
        return plain

    def decode(self, stored: Any) -> Any:
        if self._free:
            return stored
        try:
            return self._check(stored)
        except (TypeError, ValueError) as error:
            raise self._refused(error) from None

    def _check(self, plain: Any) -> Any:
        value = msgspec.convert(plain, self._annotation, str_keys=True, dec_hook=_load)
        if self._has_times:
            _plain(value)  # refuses naive datetimes, at any depth
        return value

    def _refused(self, error: Exception) -> InvalidArguments:
        return InvalidArguments(f"{self._what}: {_reason(error)}")


def _hints(name: str, function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as error:
        raise InvalidJob(
            f'{name}: codec="annotations" needs the annotations at the declaration, and {error}; import it at run '
            "time (not under TYPE_CHECKING), and define it above the job"
        ) from None


def _plain(value: Any) -> Any:
    return _with_offsets(msgspec.to_builtins(value, builtin_types=(datetime,), str_keys=True, enc_hook=_dump))


def _with_offsets(value: Any) -> Any:
    """Write datetimes as ISO 8601; raise ValueError for a naive one."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a datetime without time zone; use datetime.now(timezone.utc), for example")
        return value.isoformat()
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {key: _with_offsets(each) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        return [_with_offsets(each) for each in cast("Sequence[Any]", value)]
    return value


def _check_fields(stored: Any, read: Any) -> None:
    """Raise ValueError if a field of an object is not read."""
    if isinstance(stored, dict) and isinstance(read, dict):
        fields, known = cast("dict[str, Any]", stored), cast("dict[str, Any]", read)
        for name, value in fields.items():
            if name not in known:
                raise ValueError(f"its field {name!r} is not one of the annotation; annotate it with its own class")
            _check_fields(value, known[name])
    elif isinstance(stored, list) and isinstance(read, list):
        for one, other in zip(cast("Sequence[Any]", stored), cast("Sequence[Any]", read), strict=True):
            _check_fields(one, other)


def _is_model(kind: Any) -> bool:
    """Whether it is a pydantic model; pydantic is not imported, because not every application has it."""
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate")


def _dump(value: Any) -> Any:
    if _is_model(type(value)):
        _with_offsets(value.model_dump())  # refuses naive datetimes, which are texts below
        kind = cast("Any", type(value))
        stored = value.model_dump(mode="json", by_alias=True)
        read = _load(kind, stored)
        for name in kind.model_fields:
            if getattr(read, name) != getattr(value, name):
                raise ValueError(f"the field {name!r} of {kind.__name__} would change: JSON cannot carry its value")
        return stored
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _load(kind: Any, stored: Any) -> Any:
    if kind is object:
        return stored
    try:
        return kind.model_validate_json(msgspec.json.encode(stored))  # a strict model reads dates from JSON only
    except ValueError as error:  # pydantic's message contains the values
        raise ValueError(f"it is not a valid {kind.__name__}{_first_place(error)}") from None


def _first_place(error: ValueError) -> str:
    """Return where a pydantic model does not accept a value, and why, without the value."""
    untyped: Any = error
    first = untyped.errors(include_input=False, include_context=False, include_url=False)[0]
    return f": {'.'.join(map(str, first['loc']))} ({first['type']})"


def _parts(info: Any) -> Iterator[Any]:
    """Yield a type's description and those of its parts, each once."""
    waiting, seen = [info], list[Any]()
    while waiting:
        part = waiting.pop()
        if any(part is other for other in seen):
            continue
        seen.append(part)
        yield part
        for name in ("item_type", "key_type", "value_type", "item_types", "types", "fields", "type"):
            below = getattr(part, name, ())
            waiting += below if isinstance(below, tuple) else [below]


def _reason(error: Exception) -> str:
    """Return the message without values of arguments, because it appears in logs."""
    text = str(error)
    place = text[text.rindex(" - at ") :] if " - at " in text else ""
    if text.startswith("Invalid enum value"):
        return f"unknown value{place}"
    if "unknown field" in text:
        return f"unknown field{place}"
    return text


def _refusal(job: str, name: str, annotation: Any, why: str) -> str:
    return (
        f'{job}: codec="annotations" cannot carry parameter {name!r}: {_shown(annotation)}: {why}; annotate it with a '
        "type of plain JSON, date and time, UUID, Decimal, Enum, dataclass, pydantic model or msgspec Struct"
    )


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
