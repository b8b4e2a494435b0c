"""Find jobs whose stored arguments a new release cannot run, or would read differently, from two manifests.

A change is compatible only if each argument that the old signature accepts reaches a parameter of the same name.
Manifests do not show positional-only parameters, so an argument stored by keyword must not meet a positional one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsider.core.errors import ConfigurationError
from offsider.jobs.manifest import Entry, signature_text
from offsider.jobs.signature import KINDS

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
