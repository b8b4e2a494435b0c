"""A release is judged by what is stored already: which changes are unsafe, and the safe way to each."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from offsider import Config, Job, job
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry
from offsider.jobs.compatibility import changes, judges
from offsider.jobs.manifest import manifest

J = "job"


def release(function: Any = None, **options: Any) -> dict[str, Any]:
    """The manifest of a release with this one job."""
    with registry.isolated():
        for name in registry.names():
            del registry._jobs[name]
        if function is not None:
            job(**{"name": J, **options})(function)
        return manifest(Config())


def said(old: Any, new: Any) -> list[tuple[bool, str]]:
    return [(change.unsafe, change.what) for change in changes(release(old), release(new))]


def plain(path, width): ...
def with_default(path, width=100): ...
def with_optional(path, width, height=50): ...
def with_required(path, width, height): ...
def inserted(path, height=50, *, width=1): ...
def in_front(height=50, path="", width=0): ...
def shorter(path): ...
def turned(width, path): ...
def other_word(path, size): ...
def by_keyword(path, *, width): ...
def by_other_keyword(path, *, size): ...
def collecting(path, *rest): ...
def collecting_more(path, extra=1, *rest): ...
def any_keyword(path, **options): ...
def keyword_in_front(width, path): ...
def only_rest(*rest): ...
def without_width(path, height=50): ...
def rest_and_keyword(path, *rest, width=1): ...
def other_rest(path, *others): ...
def typed(path: str, width: int): ...
def other_default(path, width=200): ...
def without(): ...


UNSAFE = [
    (plain, with_required, "its new parameter height is required: jobs are stored without it"),
    (plain, in_front, "its new parameter height stands before others: stored arguments move on by one"),
    (collecting, collecting_more, "its new parameter extra stands before others: stored arguments move on by one"),
    (plain, shorter, "its parameter width is removed: arguments that were stored for it do not fit"),
    (
        with_optional,
        without_width,
        "its parameter width is removed: arguments that were stored for it are taken for height",
    ),
    (plain, collecting, "its parameter width is removed: arguments that were stored for it are taken for *rest"),
    (
        with_default,
        rest_and_keyword,
        (
            "its parameter width is given by keyword, and was by position: arguments that were stored for it are taken "
            "for *rest"
        ),
    ),
    (plain, turned, "its parameters have another order (width, path): stored arguments are taken for each other"),
    (plain, by_keyword, "its parameter width is given by keyword, and was by position"),
    (
        by_keyword,
        keyword_in_front,
        (
            "its parameter width is given by position, and was by keyword: arguments that were stored for others are "
            "taken for it"
        ),
    ),
    (only_rest, collecting, "its new parameter path stands before others: stored arguments move on by one"),
    (with_default, plain, "its parameter width has lost its default: jobs may be stored without it"),
    (collecting, shorter, "its parameter rest is removed: arguments that were stored for it do not fit"),
    (any_keyword, shorter, "its parameter options is removed: arguments that were stored for it do not fit"),
    (
        plain,
        other_word,
        "its parameter width is called size: stored arguments mean what width meant, and those by keyword do not fit",
    ),
    (
        by_keyword,
        by_other_keyword,
        "its parameter width is called size: stored arguments mean what width meant, and those by keyword do not fit",
    ),
]


@pytest.mark.parametrize("old, new, what", UNSAFE)
def test_what_is_unsafe_is_told_first_with_the_safe_sequence_of_releases(old, new, what):
    first = changes(release(old), release(new))[0]
    assert (first.job, first.unsafe, first.what) == (J, True, what)
    assert first.steps


SAFE = [
    (plain, with_optional, "its new parameter height has a default"),
    (shorter, with_default, "its new parameter width has a default"),
    (shorter, collecting, "its new parameter rest collects what others leave"),
    (shorter, any_keyword, "its new parameter options collects what others leave"),
    (by_keyword, any_keyword, "its parameter width is taken by ** now"),
    (with_default, other_default, "its parameter width has another default, which stored jobs get too"),
    (plain, typed, "its parameter path is said to be str, and was anything"),
]


@pytest.mark.parametrize("old, new, what", SAFE)
def test_what_is_safe_is_a_note(old, new, what):
    found = said(old, new)
    assert (False, what) in found
    assert not any(unsafe for unsafe, _ in found)


@pytest.mark.parametrize("function", [plain, with_default, collecting, any_keyword, by_keyword, without])
def test_the_same_release_changes_nothing(function):
    assert said(function, function) == []
    assert judges(release(function), release(function)) == {}


def test_the_name_of_what_collects_the_others_means_nothing():
    assert said(collecting, other_rest) == []


def test_a_default_that_is_new_is_safe():
    assert said(plain, with_default) == []


def test_only_changes_that_give_arguments_another_meaning_concern_those_that_fit():
    pairs = [(plain, turned), (plain, in_front), (plain, other_word), (plain, shorter), (with_default, plain)]
    assert [
        changes(release(*old), release(*new))[0].misleads for old, new in ((pair[:1], pair[1:]) for pair in pairs)
    ] == [*(True, True, True, False, False)]


def test_a_removed_job_a_lost_alias_and_a_new_job():
    (removed,) = changes(release(plain), release())
    assert removed.unsafe
    assert "is removed" in removed.what
    assert removed.steps[-1] == "remove the job"
    (lost,) = changes(release(plain, aliases=["old"]), release(plain))
    assert lost.unsafe
    assert "has lost its alias old" in lost.what
    (new,) = changes(release(), release(plain))
    assert (new.unsafe, new.what) == (False, "is new")


def test_a_job_that_keeps_its_old_name_as_an_alias_is_no_removed_job():
    (renamed,) = changes(release(plain), release(plain, name="better", aliases=[J]))
    assert (renamed.unsafe, renamed.what) == (False, "is called better now, and keeps the old name as an alias")


def test_a_job_in_another_queue_is_a_note_that_says_what_to_look_after():
    (moved,) = changes(release(plain, queue="low"), release(plain, queue="media"))
    assert (moved.unsafe, moved.what) == (False, "goes to queue media in place of low")
    assert "offsider migrate" in moved.steps[1]


def test_a_class_is_judged_by_its_perform():
    class Resize(Job, name=J):
        def perform(self, path): ...

    found = changes({"jobs": [next(told for told in manifest(Config())["jobs"] if told["name"] == J)]}, release(plain))
    assert found[0].what == "its new parameter width is required: jobs are stored without it"


def test_stored_arguments_are_judged_by_the_new_parameters():
    new = release(with_required)
    judge = judges(release(plain), new)[J]
    assert judge.signature == new["jobs"][0]["signature"]
    assert judge.fits([1, 2, 3], {})
    assert not judge.fits([1, 2], {})
    assert (
        judges(release(plain, aliases=["old"]), release(without))["old"].fits
        == judges(release(plain, aliases=["old"]), release())["old"].fits
    )
    assert not judges(release(plain), release())[J].fits([1, 2], {})
    keyword = judges(release(by_keyword), release(by_other_keyword))[J]
    assert keyword.fits([1], {"size": 2})
    assert not keyword.fits([1], {"width": 2})
    rest = judges(release(collecting), release(collecting_more))[J]
    assert rest.fits([1, 2, 3, 4], {})
    some = judges(release(any_keyword), release(shorter))[J]
    assert (some.fits([1], {}), some.fits([1], {"x": 1})) == (True, False)


@pytest.mark.parametrize(
    "arguments",
    [[7], [{"kind": "positional"}], [{"name": "a", "kind": "odd"}], 7],
)
def test_a_manifest_that_tells_odd_arguments_is_refused(arguments):
    odd = {"jobs": [{"name": J, "arguments": arguments}]}
    with pytest.raises(ConfigurationError, match="arguments of job cannot be read"):
        changes(odd, release(plain))


def test_parameters_in_an_impossible_order_are_refused():
    told = [{"name": name, "kind": "positional", "required": name == "b"} for name in ("a", "b")]
    with pytest.raises(ConfigurationError, match="arguments of job cannot be read"):
        judges(release(plain), {"jobs": [{"name": J, "arguments": told}]})


# ------------------------------------------------------------------------- against real binding


@st.composite
def parameters(draw) -> list[inspect.Parameter]:
    """The parameters of some function."""
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4))
    split = draw(st.integers(0, len(names)))
    required = draw(st.integers(0, split))
    told = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=inspect.Parameter.empty if at < required else 0
        )
        for at, name in enumerate(names[:split])
    ]
    if draw(st.booleans()):
        told.append(inspect.Parameter("rest", inspect.Parameter.VAR_POSITIONAL))
    for name in names[split:]:
        default = draw(st.sampled_from([inspect.Parameter.empty, 0]))
        told.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    if draw(st.booleans()):
        told.append(inspect.Parameter("more", inspect.Parameter.VAR_KEYWORD))
    return told


def told_of(given: list[inspect.Parameter]) -> dict[str, Any]:
    def function(*args: object, **kwargs: object) -> None: ...

    function.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
    return release(function)


def stored_by(given: list[inspect.Parameter], count: int, further: bool) -> tuple[list[str], dict[str, str]]:
    """Arguments as a push stores them: each says what it is for."""
    positional = [each for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
    required = sum(each.default is each.empty for each in positional)
    args = [each.name for each in positional[: max(required, count)]]
    if len(args) == len(positional) and further and any(each.kind is each.VAR_POSITIONAL for each in given):
        args.append("*")
    kwargs = {
        each.name: each.name
        for each in given
        if each.kind is each.KEYWORD_ONLY and (further or each.default is each.empty)
    }
    return args, kwargs


@given(parameters(), parameters(), st.integers(0, 4), st.booleans())
@settings(max_examples=200, deadline=None)
def test_what_is_called_safe_binds_each_stored_argument_to_what_it_was_stored_for(old, new, count, further):
    before, after = told_of(old), told_of(new)
    found = [change for change in changes(before, after) if change.unsafe]
    args, kwargs = stored_by(old, count, further)
    judged = judges(before, after).get(J)
    if any(change.misleads for change in found) or (judged is not None and not judged.fits(args, kwargs)):
        return
    bound = inspect.Signature(new).bind(*args, **kwargs).arguments
    for name, value in bound.items():
        if name == "rest":
            assert set(value) <= {"*"}
        elif name == "more":
            assert all(key == kept for key, kept in value.items())
        else:
            assert value == name
