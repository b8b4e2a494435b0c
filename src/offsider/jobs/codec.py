"""Rich arguments by annotation: dates, UUIDs, decimals, enums, dataclasses and models, stored as plain JSON.

The job option ``codec="annotations"``. msgspec converts between JSON and annotations (see its page "Supported Types");
pydantic models convert themselves. At the push the JSON form is also read back, so that an argument that does not fit
raises in the program that pushes, and not in the worker.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from typing import Any, Optional, Protocol, cast

from offsider.config.installation import Installation
from offsider.core.arguments import StepResult
from offsider.core.errors import ConfigurationError, InvalidArguments, InvalidJob
from offsider.core.job_id import JobId

try:
    import msgspec
    from msgspec import inspect as described
except ImportError as error:
    raise ConfigurationError('codec="annotations" needs msgspec: pip install "offsider[codec]"') from error


_TIMES = described.DateTimeType | described.DateType | described.TimeType | described.TimeDeltaType
_TEXTS = described.StrType | described.BytesType | described.UUIDType | described.EnumType | described.LiteralType
_NUMBERS = described.IntType | described.FloatType | described.DecimalType
_KEYS = _TIMES | _TEXTS | _NUMBERS | described.AnyType
_NAIVE = "a datetime without time zone; use datetime.now(timezone.utc), for example"
_ADVICE = {
    TypeError: "annotate it with a type of plain JSON, date and time, UUID, Decimal, Enum, dataclass, pydantic model "
    "or msgspec Struct",
    NameError: "import it at run time (not under TYPE_CHECKING), and define it above the job",
}


class ResultCodec(Protocol):
    """Converts the result of one function."""

    def encode(self, value: Any) -> Any:
        """Return it as plain JSON. Raises InvalidArguments."""
        ...

    def decode(self, stored: Any) -> Any:
        """Return it as the type of the annotation. Raises InvalidArguments."""
        ...


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

    @staticmethod
    def of_result(name: str, function: Callable[..., Any]) -> ResultCodec:
        """Return what converts the result of a function of the job by its annotation."""
        return _Carrier(name, "return", _hints(name, function).get("return", Any))

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return arguments as plain JSON. Values that already have the JSON form are accepted too.

        Raises:
            InvalidArguments: an argument does not fit its annotation, or is a naive datetime.
        """
        return self._converted(_Carrier.encode, args, kwargs)

    def decode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return stored arguments as the types of the annotations. Raises InvalidArguments as `encode` does."""
        return self._converted(_Carrier.decode, args, kwargs)

    def _converted(
        self, convert: Callable[[_Carrier, Any], Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        carriers = chain(self._by_position, repeat(self._rest))
        return (
            [convert(carrier, value) for carrier, value in zip(carriers, args, strict=False)],
            {name: convert(self._by_name.get(name, self._others), value) for name, value in kwargs.items()},
        )


class _Carrier:
    """One parameter: converts its values."""

    def __init__(self, job: str, name: str, annotation: Any) -> None:
        self._annotation = annotation
        self._what = f"{job}: argument {name!r} does not fit its annotation {_shown(annotation)}"
        self._free = annotation in (Any, object)
        try:
            # The decoder refuses unions that JSON cannot tell apart, which the description accepts.
            msgspec.json.Decoder(annotation, dec_hook=_load)
            parts = list(_parts(described.type_info(annotation)))
            for part in parts:
                _check_part(part)
        except (TypeError, ValueError, NameError) as error:
            advice = next((f"; {_ADVICE[kind]}" for kind in _ADVICE if isinstance(error, kind)), "")
            raise InvalidJob(
                f'{job}: codec="annotations" cannot carry parameter {name!r}: {_shown(annotation)}: '
                f"{str(error).splitlines()[0]}{advice}"
            ) from None
        self._has_times = any(isinstance(part, described.DateTimeType) for part in parts)
        self._has_dates = any(isinstance(part, described.DateType) for part in parts)

    def encode(self, value: Any) -> Any:
        if self._free or isinstance(value, StepResult):
            return value
        try:
            plain = _plain(value)
            _check_same(value, self._check(plain))
        except (TypeError, ValueError) as error:
            raise self._refused(error) from None
        except RecursionError:
            raise InvalidArguments(f"{self._what}: it is nested too deeply for JSON, or contains itself") from None
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
        reason = _reason(error)
        if "RFC3339 encoded datetime" in reason:
            reason += "; for a datetime, pass datetime.combine(day, time(), timezone.utc) of the date, for example"
        elif self._has_dates and ("RFC3339 encoded date" in reason or reason == _NAIVE):
            reason += "; for a date, pass .date() of the datetime"
        return InvalidArguments(f"{self._what}: {reason}")


def _hints(name: str, function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError as error:
        raise InvalidJob(
            f'{name}: codec="annotations" needs the annotations at the declaration, and {error}; import it at run '
            "time (not under TYPE_CHECKING), and define it above the job"
        ) from None


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value, builtin_types=(datetime,), enc_hook=_dump)
    _check_offsets(plain)
    return _with_texts(plain)


def _check_offsets(value: Any) -> None:
    """Raise ValueError for a naive datetime."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(_NAIVE)
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        value = [*entries, *entries.values()]
    if isinstance(value, list | tuple | set | frozenset):
        for each in cast("Iterable[object]", value):
            _check_offsets(each)


def _with_texts(value: Any) -> Any:
    """Write datetimes as ISO 8601, and keys as texts."""
    if isinstance(value, datetime):
        offset = value.utcoffset()
        # RFC 3339 has no seconds in an offset, which local time before time zones has.
        return (value.astimezone(UTC) if offset and offset % timedelta(minutes=1) else value).isoformat()
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        return {_key(key): _with_texts(each) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(each) for each in cast("Sequence[Any]", value)]
    return value


def _key(key: Any) -> Any:
    plain = _with_texts(key)
    return plain if isinstance(plain, str) else next(iter(msgspec.to_builtins({plain: None}, str_keys=True)))


def _check_same(value: Any, read: Any, place: str = "") -> None:
    """Raise ValueError if a value would not come back equal. Its JSON form is accepted, and a tuple for a list."""
    if value == read:
        return
    kind, other = cast("type[object]", type(value)), cast("type[object]", type(read))
    if kind is other or any(isinstance(value, each) and isinstance(read, each) for each in (Mapping, (list, tuple))):
        pieces, others = _pieces(value), _pieces(read)
        if pieces and len(pieces) == len(others):
            for (where, one), (_, two) in zip(pieces, others, strict=True):
                _check_same(one, two, place + where)
            return
    elif read is not None and (kind in {str, dict, list} or (isinstance(value, int | float) and other is not str)):
        return  # the JSON form of a date, an enum, an object, a set and the like
    what = f"the {_shown(kind)}{' at ' if place else ''}{place} would be decoded"
    if kind is other:
        raise ValueError(f"{what} to another value, because its JSON lacks a part of it")
    raise ValueError(f"{what} as {_shown(other)}; annotate it with its own class")


def _pieces(value: Any) -> list[tuple[str, Any]]:
    """Return the keys and elements, or the fields, of a value, with their places, which do not show keys."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return [("[key]", key) for key in entries] + [("[...]", each) for each in entries.values()]
    if isinstance(value, list | tuple):
        return [("[...]", each) for each in cast("Sequence[Any]", value)]
    kind = cast("Any", type(value))
    names: Iterable[str] = getattr(kind, "__struct_fields__", getattr(kind, "__dataclass_fields__", ()))
    if _is_model(kind):
        names = [*kind.model_fields, *(value.model_extra or ())]
    return [(f".{name}", getattr(value, name, None)) for name in names]


def _dump(value: Any) -> Any:
    if _is_model(type(value)):
        _check_offsets(value.model_dump(round_trip=True))  # the datetimes are texts below
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, JobId):
        return str(cast("str", value))
    plain = next((f"; pass a plain {kind.__name__}" for kind in (str, int, float) if isinstance(value, kind)), "")
    raise TypeError(f"{type(value).__name__} has no JSON form{plain}")


def _load(kind: Any, stored: Any) -> Any:
    if kind is object:
        return stored
    if JobId in (kind, typing.get_origin(kind)):
        if type(stored) is not str:
            raise _NotValid(f"Expected `str`, got `{type(stored).__name__}`")
        return JobId.at(Installation.of(), stored)
    try:
        return kind.model_validate_json(msgspec.json.encode(stored))  # a strict model reads dates from JSON only
    except ValueError as error:  # pydantic's message contains the values
        raise _NotValid(f"it is not a valid {kind.__name__}{_first_place(error)}") from None


class _NotValid(ValueError):
    """A type that msgspec does not know refuses a value. The message is ours."""


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


def _check_part(part: Any) -> None:
    """Raise TypeError or ValueError for a part of an annotation whose values never come back from JSON."""
    custom: Any = part.cls if isinstance(part, described.CustomType) else None
    if _is_model(custom):
        custom.model_rebuild()  # raises NameError if a field cannot be resolved
    elif custom not in {None, object, JobId} or isinstance(part, described.RawType | described.ExtType):
        raise TypeError(f"{_shown(custom or type(part))} has no JSON form")
    key = getattr(part, "key_type", None)
    keys = key.types if isinstance(key, described.UnionType) else (key,)
    if key and not any(isinstance(each, _KEYS) for each in keys):
        raise TypeError(
            "the keys of a dict must be str, int, float, date, datetime, time, UUID or Enum, because JSON stores them "
            "as text"
        )


def _reason(error: Exception) -> str:
    """Return the message without values of arguments, because it appears in logs."""
    text, cause = str(error), error.__cause__
    if text.startswith("Error calling function"):  # a serializer of the application
        return text.partition(": ")[0]
    if cause is not None and not isinstance(cause, _NotValid):  # an error of the application
        return f"__post_init__ raised {type(cause).__name__}{text.removeprefix(str(cause))}"
    place = text[text.rindex(" - at ") :] if " - at " in text else ""
    if text.startswith("Invalid enum value"):
        return f"unknown value{place}"
    if "unknown field" in text:
        return f"unknown field{place}"
    return text


def _is_model(kind: Any) -> bool:
    """Whether it is a pydantic model, which need not be installed. ``BaseModel`` itself is none: it has no fields."""
    return hasattr(kind, "model_validate_json") and hasattr(kind, "__pydantic_generic_metadata__")


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)
