"""What a release changes for jobs that are stored already, and the safe way to the same end.

While a release is rolled out, jobs of the old one are run by new workers. A change is safe when the stored arguments of
every old job still fit, and still mean the same. Two manifests tell that, without a look at any code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from offsider.core.errors import ConfigurationError
from offsider.jobs.manifest import Entry

_KINDS = {
    "positional": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "rest": inspect.Parameter.VAR_POSITIONAL,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
    "keywords": inspect.Parameter.VAR_KEYWORD,
}
_COLLECTING = frozenset({"rest", "keywords"})
_GIVEN = {"positional": "by position", "rest": "as *rest", "keyword": "by keyword", "keywords": "as **keywords"}

Fits: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], bool]
"""Whether stored arguments, by position and by name, fit the parameters of the new release."""


@dataclass(frozen=True, slots=True)
class Judge:
    """What the new release makes of jobs that are stored under one name.

    Attributes:
        job: the name of the changes that concern them.
        signature: of the new release; jobs that carry it are none of the old one.
        fits: whether arguments fit.
    """

    job: str
    signature: str
    fits: Fits


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a job, as a manifest tells it."""

    name: str
    kind: str
    required: bool
    type: str | None
    default: object


@dataclass(frozen=True, slots=True)
class Change:
    """What a release changes for one job.

    Attributes:
        job: the name under which jobs are stored.
        what: the change.
        unsafe: stored jobs may fail, wait for ever, or mean something else.
        steps: the safe sequence of releases, or what to look after when it is safe.
        misleads: stored arguments may fit, and mean something else; else it concerns those alone that do not fit.
    """

    job: str
    what: str
    unsafe: bool
    steps: tuple[str, ...] = ()
    misleads: bool = False


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """What is different between two manifests, for those who have jobs stored: the unsafe changes first, by job.

    Raises:
        ConfigurationError: a manifest tells parameters in a form that is none.
    """
    found = list(_all_changes(old, new))
    return sorted(found, key=lambda change: (not change.unsafe, change.job))


def judges(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Judge]:
    """Stored name -> what becomes of jobs under it, for those jobs whose changes are unsafe.

    Raises:
        ConfigurationError: as `changes`.
    """
    after = _by_every_name(new)
    unsafe = {change.job for change in changes(old, new) if change.unsafe}
    return {
        name: _judge(job["name"], after[name]) if name in after else Judge(job["name"], "", _never)
        for job in old["jobs"]
        if job["name"] in unsafe
        for name in _names(job)
    }


def _all_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    after, before = _by_every_name(new), _by_every_name(old)
    for job in old["jobs"]:
        name = job["name"]
        if name not in after:
            yield _removed(name)
            continue
        now = after[name]
        if now["name"] != name:
            yield _renamed(name, now["name"])
        yield from (_alias_removed(name, alias) for alias in _aliases(job) if alias not in after)
        yield from _of_parameters(name, _parameters(job), _parameters(now))
        if job.get("queue") != now.get("queue"):
            yield _moved(name, job.get("queue"), now.get("queue"))
    for job in new["jobs"]:
        if not any(name in before for name in _names(job)):
            yield Change(
                job["name"], "is new", unsafe=False, steps=("jobs that are pushed before its workers run are parked",)
            )


# ------------------------------------------------------------------------------------- the jobs


def _removed(name: str) -> Change:
    return Change(
        name,
        "is removed: whatever is stored under this name can be run by nobody",
        unsafe=True,
        steps=(
            "release without the code that pushes it, and keep the job",
            "wait until none is stored: queues, scheduled jobs, retries (--redis counts them)",
            "remove the job",
        ),
    )


def _alias_removed(name: str, alias: str) -> Change:
    return Change(
        name,
        f"has lost its alias {alias}: whatever is stored under this name can be run by nobody",
        unsafe=True,
        steps=(
            "make sure that nothing pushes by this name any more",
            "wait until none is stored under it (--redis counts them)",
            "remove the alias",
        ),
    )


def _renamed(old: str, new: str) -> Change:
    return Change(
        old,
        f"is called {new} now, and keeps the old name as an alias",
        unsafe=False,
        steps=(
            "old workers do not know the new name: until the last is gone such jobs go on to new ones, or are parked",
        ),
    )


def _moved(name: str, old: object, new: object) -> Change:
    return Change(
        name,
        f"goes to queue {new} in place of {old}",
        unsafe=False,
        steps=(
            f"workers must serve {new} before anything pushes there",
            f"serve {old} until it is empty, or move what is stored: offsider migrate",
        ),
    )


# ------------------------------------------------------------------------------- the parameters


def _of_parameters(job: str, old: Sequence[Parameter], new: Sequence[Parameter]) -> Iterator[Change]:
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    renamed = _renames(old, new)
    for parameter in old:
        if parameter.name in renamed:
            if parameter.kind not in _COLLECTING:  # nobody gives those by name
                yield _renamed_parameter(job, parameter.name, renamed[parameter.name])
        elif parameter.name not in after:
            yield _gone(job, parameter, old, new)
        else:
            yield from _changed(job, parameter, after[parameter.name], old, new)
    for parameter in new:
        if parameter.name not in before and parameter.name not in renamed.values():
            yield _added(job, parameter, old, new)
    yield from _reordered(job, old, new)


def _renames(old: Sequence[Parameter], new: Sequence[Parameter]) -> dict[str, str]:
    """Old name -> new name, of parameters that stand in each other's place."""
    before, after = {each.name for each in old}, {each.name for each in new}
    pairs = list(zip(_positional(old), _positional(new), strict=False))
    gone = [each for each in old if each.kind == "keyword" and each.name not in after]
    come = [each for each in new if each.kind == "keyword" and each.name not in before]
    if len(gone) == len(come) == 1:
        pairs.append((gone[0], come[0]))
    pairs += [(one, other) for kind in _COLLECTING for one in old for other in new if one.kind == other.kind == kind]
    return {one.name: other.name for one, other in pairs if one.name not in after and other.name not in before}


def _renamed_parameter(job: str, old: str, new: str) -> Change:
    return Change(
        job,
        f"its parameter {old} is called {new}: stored arguments mean what {old} meant, and those by keyword do not fit",
        unsafe=True,
        steps=(
            f"add {new} with a default behind the others, and deploy workers",
            f"send {new}, and wait until no job is stored without it",
            f"drop {old}",
            f"or, when only the name of a positional parameter changes and its meaning stays: --allow {job}",
        ),
        misleads=True,
    )


def _gone(job: str, parameter: Parameter, old: Sequence[Parameter], new: Sequence[Parameter]) -> Change:
    name = parameter.name
    if parameter.kind == "keyword" and any(each.kind == "keywords" for each in new):
        return Change(job, f"its parameter {name} is taken by ** now", unsafe=False)
    taken = _taken_for(parameter, old, new)
    if taken:
        what = f"its parameter {name} is removed: arguments that were stored for it are taken for {taken}"
        steps: tuple[str, ...] = (
            f"leave {name} where it is, unused and with a default",
            "or declare another job without it, push that one, and remove this one when none of it is stored",
        )
    else:
        what = f"its parameter {name} is removed: arguments that were stored for it do not fit"
        steps = (
            f"stop using {name}, give it a default, and deploy workers",
            "stop sending it, and wait until no job is stored with it",
            "drop it",
        )
    return Change(job, what, unsafe=True, steps=steps, misleads=bool(taken))


def _taken_for(parameter: Parameter, old: Sequence[Parameter], new: Sequence[Parameter]) -> str:
    """What becomes of arguments that were stored by position for a parameter that no longer stands there."""
    if parameter.kind not in {"positional", "rest"}:
        return ""
    positional = _positional(old)
    place = positional.index(parameter) if parameter in positional else len(positional)
    there = [each.name for each in _positional(new)][place : place + 1]
    return there[0] if there else next((f"*{each.name}" for each in new if each.kind == "rest"), "")


def _added(job: str, parameter: Parameter, old: Sequence[Parameter], new: Sequence[Parameter]) -> Change:
    name = parameter.name
    what, unsafe, misleads = f"its new parameter {name} has a default", False, False
    steps: tuple[str, ...] = (
        "send it when all workers know it: until then such jobs go on to those that do, or are parked",
    )
    if parameter.kind in _COLLECTING:
        what = f"its new parameter {name} collects what others leave"
    elif parameter.kind == "positional" and _is_before_others(parameter, old, new):
        what, unsafe = f"its new parameter {name} stands before others: stored arguments move on by one", True
        misleads = True
        steps = (f"put {name} behind all others, with a default, or make it keyword-only",)
    elif parameter.required:
        what, unsafe = f"its new parameter {name} is required: jobs are stored without it", True
        steps = (
            f"add {name} with a default, behind the others, and deploy workers",
            "send it, and wait until no job is stored without it",
            "drop the default",
        )
    return Change(job, what, unsafe, steps, misleads)


def _is_before_others(parameter: Parameter, old: Sequence[Parameter], new: Sequence[Parameter]) -> bool:
    """Whether stored arguments would be taken for it: those of parameters behind it, or of ``*rest``."""
    positional = _positional(new)
    behind = positional[positional.index(parameter) + 1 :]
    known = {each.name for each in _positional(old)}
    return any(each.name in known for each in behind) or any(each.kind == "rest" for each in old)


def _changed(
    job: str, old: Parameter, new: Parameter, before: Sequence[Parameter], after: Sequence[Parameter]
) -> Iterator[Change]:
    name = old.name
    if old.kind != new.kind:
        meaning = _other_meaning(old, new, before, after)
        steps = (
            f"add a parameter of another name, with a default, that is given {_GIVEN[new.kind]}; deploy workers",
            f"send it in place of {name}, and wait until no job is stored with {name}",
            f"drop {name}",
        )
        what = f"its parameter {name} is given {_GIVEN[new.kind]}, and was {_GIVEN[old.kind]}{meaning}"
        yield Change(job, what, unsafe=True, steps=steps, misleads=bool(meaning))
    elif new.required and not old.required:
        steps = (
            f"always send {name}, and deploy all that push",
            "wait until no job is stored without it",
            "drop the default",
        )
        yield Change(
            job, f"its parameter {name} has lost its default: jobs may be stored without it", unsafe=True, steps=steps
        )
    elif old.default != new.default and not new.required and not old.required:
        yield Change(job, f"its parameter {name} has another default, which stored jobs get too", unsafe=False)
    if old.type != new.type:
        what = f"its parameter {name} is said to be {new.type or 'anything'}, and was {old.type or 'anything'}"
        yield Change(job, what, unsafe=False, steps=("the job has to understand what is stored as well",))


def _other_meaning(old: Parameter, new: Parameter, before: Sequence[Parameter], after: Sequence[Parameter]) -> str:
    """What stored arguments would be taken for when a parameter is given in another way; empty for nothing else."""
    taken = _taken_for(old, before, after)
    if taken not in {"", old.name}:
        return f": arguments that were stored for it are taken for {taken}"
    if new.kind == "positional" and _is_before_others(new, before, after):
        return ": arguments that were stored for others are taken for it"
    return ""


def _reordered(job: str, old: Sequence[Parameter], new: Sequence[Parameter]) -> Iterator[Change]:
    stayed = {each.name for each in _positional(old)} & {each.name for each in _positional(new)}
    before = [each.name for each in _positional(old) if each.name in stayed]
    after = [each.name for each in _positional(new) if each.name in stayed]
    if before != after:
        steps = (
            "declare another job with the new order, and deploy workers",
            "push that one, and wait until none of the old is stored",
            "remove the old job",
        )
        what = f"its parameters have another order ({', '.join(after)}): stored arguments are taken for each other"
        yield Change(job, what, unsafe=True, steps=steps, misleads=True)


def _positional(parameters: Sequence[Parameter]) -> list[Parameter]:
    return [each for each in parameters if each.kind == "positional"]


# --------------------------------------------------------------------------- reading a manifest


def _by_every_name(manifest: Mapping[str, Any]) -> dict[str, Entry]:
    return {name: job for job in manifest["jobs"] for name in reversed(_names(job))}


def _names(job: Entry) -> list[str]:
    return [job["name"], *_aliases(job)]


def _aliases(job: Entry) -> list[str]:
    return [str(alias) for alias in job.get("aliases", ())]


def _parameters(job: Entry) -> list[Parameter]:
    try:
        return [_parameter(told) for told in job.get("arguments", ())]
    except (TypeError, KeyError, AttributeError) as error:
        raise _unreadable(job, error) from None


def _parameter(told: Mapping[str, Any]) -> Parameter:
    kind = told["kind"]
    if kind not in _KINDS:
        raise KeyError(kind)
    required = bool(told.get("required", kind not in _COLLECTING))
    return Parameter(str(told["name"]), kind, required, told.get("type"), told.get("default"))


def _judge(name: str, job: Entry) -> Judge:
    told = [
        inspect.Parameter(
            each.name,
            cast("Any", _KINDS[each.kind]),
            default=inspect.Parameter.empty if each.required or each.kind in _COLLECTING else None,
        )
        for each in _parameters(job)
    ]
    try:
        signature = inspect.Signature(told)
    except ValueError as error:
        raise _unreadable(job, error) from None

    def fits(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            return False
        return True

    return Judge(name, str(job.get("signature", "")), fits)


def _unreadable(job: Entry, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"the manifest is none: what it tells of the arguments of {job['name']} cannot be read ({error!r}); "
        "write it anew: offsider jobs manifest"
    )


def _never(_args: Sequence[Any], _kwargs: Mapping[str, Any]) -> bool:
    return False
