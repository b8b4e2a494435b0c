"""The manifest: all declared jobs with their options and arguments, as a file in the repository.

Code reviews then show how a change affects jobs, and CI fails if the file is out of date. Two manifests also show the
stored jobs that a new release cannot run, or would read differently.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import route
from offsider.core.arguments import are_plain
from offsider.core.errors import ConfigurationError
from offsider.inspector.job_record import JobRecord
from offsider.jobs import registry
from offsider.jobs.declared import Declared
from offsider.jobs.signature import KINDS, is_required
from offsider.storage import places

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


def signature_text(arguments: Iterable[object]) -> str:
    """The arguments of a job in parentheses."""
    return f"({', '.join(map(_signed, arguments))})"


def _has_jobs(found: Mapping[str, object]) -> bool:
    jobs = found.get("jobs")
    return isinstance(jobs, list) and all(
        isinstance(job, dict) and isinstance(cast("dict[str, object]", job).get("name"), str)
        for job in cast("list[object]", jobs)
    )


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
class Incompatible:
    """A job name whose stored jobs would fail in the new release, or receive arguments in the wrong parameters.

    Attributes:
        name: the name or alias.
        old: the old signature as text.
        new: the new one; empty if no job has the name.
        reason: why stored jobs would not run as before.
        digest: digest of the new signature, in the payload of jobs that the new release pushes.
        signature: the new parameters; None if every stored job is affected.
    """

    name: str
    old: str
    new: str
    reason: str
    digest: object = None
    signature: inspect.Signature | None = None

    def runs(self, args: Sequence[Any], kwargs: Mapping[str, Any], digest: object) -> bool | None:
        """Whether a stored job runs as before; None if the new release pushed it."""
        if digest is not None and digest == self.digest:
            return None
        if self.signature is None or not kwargs.keys().isdisjoint(_names(self.signature, "positional")):
            return False
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError:
            return False
        return True


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
    before, text = _signature(old), signature_text(old["arguments"])
    if new is None:
        return Incompatible(name, text, "", "no job of the new release has this name")
    after = _signature(new)
    misplaced = _misplaced(before, after)
    reason = misplaced or _unfit(before, after)
    if not reason:
        return None
    shown = signature_text(new["arguments"])
    return Incompatible(name, text, shown, reason, new.get("signature"), None if misplaced else after)


def _misplaced(old: inspect.Signature, new: inspect.Signature) -> str:
    """Why stored arguments may bind to other parameters; empty if they cannot."""
    before, after = _names(old, "positional"), _names(new, "positional")
    pairs = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    removed, added = before[len(after) :], after[len(before) :]
    pairs += [(f"*{rest}", added[0]) for rest in _names(old, "rest") if added]
    pairs += [(removed[0], f"*{rest}") for rest in _names(new, "rest") if removed]
    for options in _names(new, "keywords"):
        pairs += [(name, f"**{options}") for name in _names(old, "keyword") if name not in new.parameters]
    return f"arguments stored for {pairs[0][0]} would be passed as {pairs[0][1]}" if pairs else ""


def _unfit(old: inspect.Signature, new: inspect.Signature) -> str:
    """Why stored arguments may not bind; empty if all do. For signatures that keep each argument in its place."""
    before, after = _names(old, "positional"), _names(new, "positional")
    refused = before[len(after) :]
    refused += [f"*{rest}" for rest in _names(old, "rest") if not _names(new, "rest")]
    by_keyword = [*_names(old, "keyword"), *(after[len(before) :] if _names(old, "keywords") else ())]
    refused += [f"{name} by keyword" for name in by_keyword if name not in _names(new, "keyword")]
    refused += [f"**{options}" for options in _names(old, "keywords") if not _names(new, "keywords")]
    if refused:
        return f"jobs may be stored with {refused[0]}, which is no longer accepted"
    always = [name for name, parameter in old.parameters.items() if is_required(parameter)]
    missing = [name for name, parameter in new.parameters.items() if is_required(parameter) and name not in always]
    return f"jobs may be stored without {missing[0]}, which is required" if missing else ""


def _names(signature: inspect.Signature, kind: str) -> list[str]:
    return [name for name, parameter in signature.parameters.items() if KINDS[parameter.kind] == kind]


def _signature(job: Entry) -> inspect.Signature:
    """Return the parameters of a job in a manifest; positional ones accept no keyword argument in stored jobs."""
    kinds = {name: kind for kind, name in KINDS.items()}
    try:
        return inspect.Signature(
            [
                inspect.Parameter(
                    argument["name"],
                    kinds[argument["kind"]],
                    default=inspect.Parameter.empty if argument.get("required", True) else None,
                )
                for argument in job["arguments"]
            ]
        )
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"cannot read the arguments of {job['name']} in a manifest ({error!r}); "
            "write it again: offsider jobs manifest"
        ) from None


#: Places whose jobs run only after an operator's action.
RESTING = frozenset({"dead", "quarantine"})


@dataclass(slots=True)
class StoredJobs:
    """The stored jobs of one name.

    Attributes:
        places: number of jobs by place: ``"queue:low"``, ``"schedule"``, ``"retry"``, ``"running"``, ``"dead"``,
            ``"quarantine"``, or the key of another list: of an extension, or of jobs in transit. Those of another
            server end with ``" of SERVER"``.
        unfit: number of jobs that failed the test, without dead and quarantined jobs.
    """

    places: Counter[str] = field(default_factory=Counter[str])
    unfit: int = 0


def stored_jobs(start: Installation, tests: Mapping[str, Callable[[JobRecord], bool | None]]) -> dict[str, StoredJobs]:
    """Count the stored jobs of some classes, on all servers of the configuration; the jobs are read in pages.

    A job that moves during the count may be counted twice, but is not missed.

    Args:
        start: any server of the configuration.
        tests: test by name: whether a job passes; None excludes the job from the count.

    Raises:
        RedisFailure: a server does not respond.
    """
    found = {name: StoredJobs() for name in tests}
    for server in start.config.servers:
        for place, records in _everything(start.for_server(server)):
            named = place if server == start.name else f"{place} of {server}"
            for record in records:
                passed = tests[record.name](record) if record.name in tests else None
                if passed is not None:
                    found[record.name].places[named] += 1
                    found[record.name].unfit += not passed and place not in RESTING
    return found


def _everything(server: Installation) -> Iterator[tuple[str, Iterable[JobRecord]]]:
    """Yield the jobs of every place of one server; those of private lists once."""
    running: set[bytes] = set()
    for place in places.every(server.redis):
        jobs = (job.raw for job in place.each())
        if place.is_private:
            claimed = [raw for raw in jobs if raw not in running]
            running.update(claimed)
            yield "running", map(JobRecord, claimed)
        else:
            yield place.name, map(JobRecord, jobs)
