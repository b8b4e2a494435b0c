"""The manifest: all declared jobs with their options and arguments, as a file in the repository.

Code reviews then show how a change affects jobs, and CI fails if the file is out of date.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from offsider.config.config import Config
from offsider.config.routing import route
from offsider.core.arguments import are_plain
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.signature import KINDS, is_required

Entry: TypeAlias = Mapping[str, Any]

VERSION = 1
#: Prefixes of parameter kinds other than the usual one in texts.
_STARS = {"rest": "*", "keywords": "**", "keyword": "keyword "}


def manifest(config: Config) -> dict[str, Any]:
    """Return every registered job by name, checked, with its queue under ``config``.

    Raises:
        InvalidOptions: a declaration is invalid.
    """
    registry.check_all(config)
    jobs = sorted(registry.all_jobs(), key=lambda job: job.name)
    return {"version": VERSION, "jobs": [entry(job, config) for job in jobs]}


def entry(job: Declared, config: Config) -> Entry:
    """Return the entry of one job. Keys and lists have a fixed order."""
    said, routed = job.characteristics, route(job, config.routing.rules, config.jobs)
    until = {"unique_until": said.unique_until(job.options)} if "unique_until" in config.job_options else {}
    return {
        "name": job.name,
        "aliases": sorted(job.aliases),
        "queue": routed.queue,
        "server": routed.server,
        "urgency": said.urgency,
        "resource_boundary": said.resource_boundary,
        "feature_category": said.feature_category,
        "external_dependencies": said.external_dependencies,
        "tags": sorted(said.tags),
        "weight": said.weight,
        "idempotent": said.idempotent,
        **until,
        "queue_namespace": said.queue_namespace,
        "signature": job.signature.digest,
        "arguments": [_argument(parameter) for parameter in job.signature.parameters],
    }


def written(found: Mapping[str, Any]) -> str:
    """Serialize the manifest to the text of its file."""
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def read(text: str, origin: str) -> dict[str, Any]:
    """Parse the text of a manifest. Raises ConfigurationError, with the file name, if it is not a manifest."""
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{origin} is not a manifest: {error}") from None
    if not isinstance(found, dict) or not _has_jobs(cast("dict[str, object]", found)):
        raise ConfigurationError(f"{origin} is not a manifest: expected the output of `offsider jobs manifest`")
    return cast("dict[str, Any]", found)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line for each added job (+), removed job (-), and changed value of a job (~)."""
    before, after = _by_name(old), _by_name(new)
    lines: list[str] = []
    for name in sorted({*before, *after}):
        if name not in after:
            lines.append(f"- {name}")
        elif name not in before:
            lines.append(f"+ {name} ({after[name]['queue']})")
        else:
            lines += _changes(name, before[name], after[name])
    if not lines and dict(old) != dict(new):
        lines.append("~ the same jobs, in another format or order")
    return lines


def signature_text(arguments: Iterable[object]) -> str:
    """The arguments of a job in parentheses."""
    return f"({', '.join(map(_signed, arguments))})"


def _has_jobs(found: Mapping[str, object]) -> bool:
    jobs = found.get("jobs")
    return isinstance(jobs, list) and all(
        isinstance(job, dict) and isinstance(cast("dict[str, object]", job).get("name"), str)
        for job in cast("list[object]", jobs)
    )


def _by_name(found: Mapping[str, Any]) -> dict[str, Entry]:
    return {job["name"]: job for job in found["jobs"]}


def _changes(name: str, before: Entry, after: Entry) -> Iterator[str]:
    # Not the signature, which is derived from the arguments.
    for key in dict.fromkeys(key for key in (*after, *before) if key != "signature"):
        old, new = _shown(key, before.get(key)), _shown(key, after.get(key))
        if before.get(key) != after.get(key):
            yield f"~ {name}: {key} {old} → {new}"


def _shown(key: str, value: Any) -> str:
    if key == "arguments" and isinstance(value, list):
        return signature_text(cast("list[object]", value))
    return json.dumps(value, ensure_ascii=False)


def _signed(argument: object) -> str:
    """An argument in Python syntax; other values as JSON."""
    if not isinstance(argument, dict) or "name" not in argument:
        return json.dumps(argument, ensure_ascii=False)
    told = cast("dict[str, Any]", argument)
    text = f"{_STARS.get(told.get('kind', ''), '')}{told['name']}"
    if told.get("type") is not None:
        text += f": {told['type']}"
    if told.get("required") is False:
        text += f" = {json.dumps(told['default'], ensure_ascii=False) if 'default' in told else '…'}"
    return text


def _argument(parameter: inspect.Parameter) -> Entry:
    told: dict[str, Any] = {
        "name": parameter.name,
        "kind": KINDS[parameter.kind],
        "type": None if parameter.annotation is parameter.empty else _type(parameter.annotation),
    }
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return told
    told["required"] = is_required(parameter)
    # Values that are not JSON have no text form that is stable between runs.
    if not told["required"] and are_plain([parameter.default]):
        told["default"] = parameter.default
    return told


def _type(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
