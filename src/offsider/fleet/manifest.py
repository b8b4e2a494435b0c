"""The manifest: all declared jobs with their options and arguments, as a file in the repository.

Code reviews then show how a change affects jobs, and CI fails if the file is out of date. Two manifests also show the
stored jobs that a new release cannot run, or would read differently.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


# ----------------------------------------------------------------------------- stored jobs of a former release

GUIDE = "docs/operating/deploys.md#changing-a-signature"


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a job in a manifest; `rest` and `options` are empty without ``*`` and ``**``."""

    positional: Sequence[str]
    required: int
    rest: str
    keywords: Sequence[str]
    required_keywords: Sequence[str]
    options: str

    def fit(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether stored arguments bind to these parameters."""
        return (
            len(args) >= self.required
            and (bool(self.rest) or len(args) <= len(self.positional))
            and kwargs.keys() >= set(self.required_keywords)
            and (bool(self.options) or kwargs.keys() <= set(self.keywords))
            and kwargs.keys().isdisjoint(self.positional)
        )


@dataclass(frozen=True, slots=True)
class Incompatible:
    """A job name whose stored jobs would fail in the new release, or receive arguments in the wrong parameters.

    Attributes:
        name: the name or alias.
        old: the old signature as text.
        new: the new one; empty if no job has the name.
        reason: why stored jobs would not run as before.
        digest: digest of the new signature, in the payload of jobs that the new release pushes.
        parameters: the new parameters; None if every stored job is affected.
    """

    name: str
    old: str
    new: str
    reason: str
    digest: object = None
    parameters: Parameters | None = None

    def runs(self, args: Sequence[Any], kwargs: Mapping[str, Any], digest: object) -> bool | None:
        """Whether a stored job runs as before; None if the new release pushed it."""
        if digest is not None and digest == self.digest:
            return None
        return self.parameters is not None and self.parameters.fit(args, kwargs)


def incompatible(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Incompatible]:
    """Compare every stored name of the old manifest with the job that has this name in the new one.

    Raises:
        ConfigurationError: a manifest lists arguments in an unknown format.
    """
    after: dict[str, Entry] = {name: job for job in new["jobs"] for name in names(job)}
    found = (_compare(name, job, after.get(name)) for job in old["jobs"] for name in names(job))
    return [each for each in found if each is not None]


def names(job: Entry) -> list[str]:
    """The name and the aliases of a job."""
    return [job["name"], *job.get("aliases", ())]


def _compare(name: str, old: Entry, new: Entry | None) -> Incompatible | None:
    before, text = _parameters(old), signature_text(old["arguments"])
    if new is None:
        return Incompatible(name, text, "", "no job of the new release has this name")
    after = _parameters(new)
    misplaced = _misplaced(before, after)
    reason = misplaced or _unfit(before, after)
    if not reason:
        return None
    shown = signature_text(new["arguments"])
    return Incompatible(name, text, shown, reason, new.get("signature"), None if misplaced else after)


def _misplaced(old: Parameters, new: Parameters) -> str:
    """Why stored arguments may bind to other parameters; empty if they cannot."""
    pairs = [pair for pair in zip(old.positional, new.positional, strict=False) if pair[0] != pair[1]]
    removed, added = old.positional[len(new.positional) :], new.positional[len(old.positional) :]
    if old.rest and added:
        pairs.append((f"*{old.rest}", added[0]))
    if new.rest and removed:
        pairs.append((removed[0], f"*{new.rest}"))
    if new.options:
        pairs += [(name, f"**{new.options}") for name in old.keywords if name not in new.keywords]
    return f"arguments stored for {pairs[0][0]} would be passed as {pairs[0][1]}" if pairs else ""


def _unfit(old: Parameters, new: Parameters) -> str:
    """Why stored arguments may not bind; empty if all do. For signatures that keep each argument in its place."""
    refused = list(old.positional[len(new.positional) :])
    refused += [f"*{old.rest}"] if old.rest and not new.rest else []
    by_keyword = [*old.keywords, *(new.positional[len(old.positional) :] if old.options else ())]
    refused += [f"{name} by keyword" for name in by_keyword if name not in new.keywords]
    refused += [f"**{old.options}"] if old.options and not new.options else []
    if refused:
        return f"jobs may be stored with {refused[0]}, which is no longer accepted"
    missing = [*new.positional[old.required : new.required], *new.required_keywords]
    missing = [name for name in missing if name not in old.required_keywords]
    return f"jobs may be stored without {missing[0]}, which is required" if missing else ""


def _parameters(job: Entry) -> Parameters:
    by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS.values()}
    required: set[str] = set()
    try:
        for argument in job["arguments"]:
            by_kind[argument["kind"]].append(argument["name"])
            if argument.get("required", True):
                required.add(argument["name"])
    except (TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"cannot read the arguments of {job['name']} in a manifest ({error!r}); "
            "write it again: offsider jobs manifest"
        ) from None
    positional, keywords = by_kind["positional"], by_kind["keyword"]
    return Parameters(
        positional,
        max((place for place, name in enumerate(positional, 1) if name in required), default=0),
        "".join(by_kind["rest"]),
        keywords,
        [name for name in keywords if name in required],
        "".join(by_kind["keywords"]),
    )
