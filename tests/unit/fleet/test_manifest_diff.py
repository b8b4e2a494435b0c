"""`incompatible` reports every change that stored jobs could notice, checked against Python's own binding."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from offsider import Config, Job, job
from offsider.core.errors import ConfigurationError
from offsider.fleet.manifest import GUIDE, Incompatible, incompatible, manifest
from offsider.jobs import registry

J = "job"


def release(function: Any = None, **options: Any) -> dict[str, Any]:
    """The manifest of a release with this one job."""
    with registry.isolated():
        for name in registry.names():
            del registry._jobs[name]
        if function is not None:
            job(**{"name": J, **options})(function)
        return manifest(Config())


def plain(path, width): ...
def with_default(path, width=100): ...
def with_optional(path, width, height=50): ...
def with_required(path, width, height): ...
def in_front(height=50, path="", width=0): ...
def shorter(path): ...
def turned(width, path): ...
def other_word(path, size): ...
def by_keyword(path, *, width): ...
def by_optional_keyword(path, *, width=1): ...
def by_other_keyword(path, *, size): ...
def collecting(path, *rest): ...
def collecting_more(path, extra=1, *rest): ...
def any_keyword(path, **options): ...
def collecting_keywords(path, width=1, **options): ...
def without_width(path, height=50): ...
def rest_and_keyword(path, *rest, width=1): ...


INCOMPATIBLE = [
    (plain, with_required, "jobs may be stored without height, which is required"),
    (with_default, plain, "jobs may be stored without width, which is required"),
    (by_optional_keyword, by_keyword, "jobs may be stored without width, which is required"),
    (plain, shorter, "jobs may be stored with width, which is no longer accepted"),
    (collecting, shorter, "jobs may be stored with *rest, which is no longer accepted"),
    (any_keyword, collecting_keywords, "jobs may be stored with width by keyword, which is no longer accepted"),
    (any_keyword, shorter, "jobs may be stored with **options, which is no longer accepted"),
    (by_keyword, by_other_keyword, "jobs may be stored with width by keyword, which is no longer accepted"),
    (by_keyword, with_default, "jobs may be stored with width by keyword, which is no longer accepted"),
    (plain, by_keyword, "jobs may be stored with width, which is no longer accepted"),
    (plain, in_front, "arguments stored for path would be passed as height"),
    (plain, turned, "arguments stored for path would be passed as width"),
    (plain, other_word, "arguments stored for width would be passed as size"),
    (with_optional, without_width, "arguments stored for width would be passed as height"),
    (plain, collecting, "arguments stored for width would be passed as *rest"),
    (with_default, rest_and_keyword, "arguments stored for width would be passed as *rest"),
    (collecting, collecting_more, "arguments stored for *rest would be passed as extra"),
    (by_keyword, any_keyword, "arguments stored for width would be passed as **options"),
]


@pytest.mark.parametrize("old, new, reason", INCOMPATIBLE)
def test_an_incompatible_change_is_reported_with_both_signatures_and_a_reason(old, new, reason):
    before, after = release(old), release(new)
    (change,) = incompatible(before, after)
    assert (change.name, change.reason) == (J, reason)
    assert (change.old, change.new) != ("", "")
    assert change.digest == after["jobs"][0]["signature"]


def test_signatures_are_shown_as_a_manifest_shows_them():
    (change,) = incompatible(release(with_default), release(by_keyword))
    assert (change.old, change.new) == ("(path, width = 100)", "(path, keyword width)")


def test_a_removed_job_is_reported_without_a_new_signature():
    (change,) = incompatible(release(plain), release())
    assert (change.name, change.old, change.new) == (J, "(path, width)", "")
    assert change.reason == "no job of the new release has this name"
    assert change.runs([1, 2], {}, None) is False


def test_a_new_job_is_not_reported():
    assert incompatible(release(), release(plain)) == []


def test_a_job_that_keeps_its_old_name_as_an_alias_is_compatible():
    assert incompatible(release(plain), release(plain, name=("better", J))) == []


def test_each_stored_name_is_compared_with_the_job_that_has_it_now():
    (lost,) = incompatible(release(plain, name=[J, "old"]), release(plain))
    assert (lost.name, lost.new) == ("old", "")
    moved = {"jobs": [*release(plain)["jobs"], *release(turned, name="old")["jobs"]]}
    (change,) = incompatible(release(plain, name=[J, "old"]), moved)
    assert (change.name, change.new) == ("old", "(width, path)")


def test_a_class_is_compared_by_its_perform():
    class Resize(Job, name=J):
        def perform(self, path): ...

    old = {"jobs": [next(found for found in manifest(Config())["jobs"] if found["name"] == J)]}
    (change,) = incompatible(old, release(plain))
    assert (change.old, change.new) == ("(path)", "(path, width)")


def test_stored_jobs_that_fit_the_new_parameters_run():
    (change,) = incompatible(release(plain), release(with_required))
    assert change.runs([1, 2, 3], {}, None) is True
    assert change.runs([1, 2], {}, "0dd") is False


def test_stored_jobs_that_fit_with_another_meaning_are_incompatible():
    (change,) = incompatible(release(plain), release(turned))
    assert change.runs([1, 2], {}, None) is False


def test_stored_jobs_that_the_new_release_pushed_are_left_out():
    (change,) = incompatible(release(plain), release(turned))
    assert change.runs([1, 2], {}, change.digest) is None


@pytest.mark.parametrize("arguments", [[7], [{"kind": "positional"}], [{"name": "a", "kind": "odd"}], 7, None])
def test_arguments_in_an_unknown_form_are_refused(arguments):
    odd = {"jobs": [{"name": J, "arguments": arguments}]}
    for pair in ((odd, release(plain)), (release(plain), odd), (odd, odd)):
        with pytest.raises(ConfigurationError, match="cannot read the arguments of job"):
            incompatible(*pair)


def test_the_guide_is_a_heading_of_the_docs():
    file, anchor = GUIDE.split("#")
    lines = (Path(__file__).parents[3] / file).read_text("utf-8").splitlines()
    assert anchor in {line.lstrip("# ").lower().replace(" ", "-") for line in lines if line.startswith("## ")}


# ------------------------------------------------------------------------- against real binding

P = inspect.Parameter
POSITIONAL = (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)


def function_with(parameters: list[P]) -> Any:
    def function(*args: object, **kwargs: object) -> None: ...

    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def parameters_of(
    positional: Sequence[str], required: int, keywords: Mapping[str, bool], stars: tuple[bool, bool], kind: Any
) -> list[P]:
    """Parameters of a function: `keywords` maps names to required or not, `stars` selects ``*`` and ``**``."""
    found = [P(name, kind, default=P.empty if at < required else 0) for at, name in enumerate(positional)]
    found += [P("rest", P.VAR_POSITIONAL)] * stars[0]
    found += [P(name, P.KEYWORD_ONLY, default=P.empty if needed else 0) for name, needed in keywords.items()]
    return found + [P("options", P.VAR_KEYWORD)] * stars[1]


def stored_by(given: list[P], names: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Arguments that jobs of a release may be stored with; each is the name of its parameter."""
    positional = [each.name for each in given if each.kind in POSITIONAL]
    required = sum(each.default is P.empty for each in given if each.name in positional)
    keywords = [each for each in given if each.kind is P.KEYWORD_ONLY]
    kinds = {each.kind for each in given}
    lists = [positional[:count] for count in range(required, len(positional) + 1)]
    if P.VAR_POSITIONAL in kinds:
        lists += [[*positional, "*"], [*positional, "*", "*"]]
    least = {each.name: each.name for each in keywords if each.default is P.empty}
    most = {each.name: each.name for each in keywords}
    others = [name for name in names if name not in most and name not in positional]
    collected = [{name: f"**{name}"} for name in others] if P.VAR_KEYWORD in kinds else []
    for args, named, more in product(lists, (least, most), [{}, *collected]):
        yield args, named | more


def runs_as_before(new: list[P], args: list[str], kwargs: dict[str, str]) -> bool:
    """Whether Python binds each argument to the parameter that it was stored for."""
    if any(each.name in kwargs for each in new if each.kind is P.POSITIONAL_ONLY):
        return False  # `inspect` of CPython 3.11 refuses them even where ** takes them.
    try:
        bound = inspect.Signature(new).bind(*args, **kwargs).arguments
    except TypeError:
        return False
    rest, options = bound.pop("rest", ()), bound.pop("options", {})
    return (
        set(rest) <= {"*"}
        and all(value == f"**{name}" for name, value in options.items())
        and all(value in (name, f"**{name}") for name, value in bound.items())
    )


def check(old: list[P], new: list[P], found: list[Incompatible], names: str) -> bool:
    """Whether some stored job would not run as before; the report must agree for each of them."""
    outcomes = [(runs_as_before(new, *stored), stored) for stored in stored_by(old, names)]
    for runs, (args, kwargs) in outcomes:
        assert runs or (found and found[0].runs(args, kwargs, None) is False), (old, new, args, kwargs)
    return not all(runs for runs, _ in outcomes)


def test_every_pair_of_small_signatures_is_judged_as_python_binds_them():
    subsets = [(), ("a",), ("b",), ("a", "b")]
    signatures = [
        [parameters_of(order, required, dict(zip(others, needed, strict=True)), stars, kind) for kind in POSITIONAL]
        for order in [*subsets, ("b", "a")]
        for required in range(len(order) + 1)
        for others in subsets
        if not {*others} & {*order}
        for needed in product((True, False), repeat=len(others))
        for stars in product((True, False), repeat=2)
    ]
    manifests = [release(function_with(only)) for only, _ in signatures]
    reported = 0
    for ((old, _), before), ((only, either), after) in product(zip(signatures, manifests, strict=True), repeat=2):
        found = incompatible(before, after)
        assert bool(found) == check(old, only, found, "abc"), (old, only, found)
        check(old, either, found, "abc")
        reported += bool(found)
    assert 0 < reported < len(signatures) ** 2
