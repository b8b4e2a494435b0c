"""Pydantic models that can never read the JSON that they write: refused when a job declares them.

pydantic is not imported, because not every application has it.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

_ONE_ALIAS = "use the same alias for reading and writing"


def is_model(kind: Any) -> bool:
    """Whether it is a pydantic model. ``BaseModel`` itself is none: it has no fields to read."""
    return hasattr(kind, "model_validate_json") and hasattr(kind, "__pydantic_generic_metadata__")


def check_models(annotation: Any) -> None:
    """Check the models in an annotation, and those in their fields.

    Raises:
        NameError: a model is not fully defined.
        ValueError: a model never reads what it writes; the message has the next step.
    """
    for model in _models(annotation, []):
        _check_model(model)


def _models(annotation: Any, found: list[Any]) -> list[Any]:
    if is_model(annotation) and annotation not in found:
        found.append(annotation)
        annotation.model_rebuild()
        for field in annotation.model_fields.values():
            _models(field.annotation, found)
    for part in typing.get_args(annotation):
        _models(part, found)
    return found


def _check_model(kind: Any) -> None:
    """Read a JSON object with the names that the model writes, and find errors that no other values would avoid.

    Validators and serializers of a whole model may change the names. Then only the push finds out.
    """
    own, fields = kind.__pydantic_decorators__, kind.model_fields
    before = any(each.info.mode != "after" for each in own.model_validators.values())
    if before or own.root_validators or own.model_serializers or kind.__pydantic_root_model__:
        return
    written = {field.serialization_alias or name: None for name, field in fields.items() if not field.exclude}
    reasons = list[str]()
    with suppress(Exception):  # validators and serializers of the application need not expect these values
        try:
            kind.model_validate_json(json.dumps(written))
        except ValueError as error:
            found = cast("Any", error).errors(include_input=False, include_context=False, include_url=False)
            reasons += [_impossible(each["type"], each["loc"], written) for each in found]
    for name, field in fields.items():
        if field.is_required() and hasattr(field.annotation, "get_secret_value"):
            with suppress(Exception):
                secret = kind.model_construct(**{name: field.annotation("probe")})
                if "**" in secret.model_dump(mode="json", include={name})[name]:
                    reasons.append(f"the field {name!r} is written as asterisks; give it a serializer")
    for reason in filter(None, reasons):
        raise ValueError(f"{kind.__name__} cannot read the JSON that it writes: {reason}")


def _impossible(error: str, place: tuple[Any, ...], written: Mapping[str, None]) -> str:
    """Return why no JSON value avoids an error, and what to do; empty if one may."""
    name = place[0] if place else ""
    if error == "missing" and name not in written:
        return f"the field {name!r} is required, but not written: {_ONE_ALIAS}, or give it a default"
    if error == "extra_forbidden":
        return f"the field {name!r} is written, but forbidden: {_ONE_ALIAS}"
    if error == "needs_python_object" and len(place) == 1:
        return f"the field {name!r} has no JSON form; give it a validator and a serializer"
    return ""
