"""Arguments against signatures: by position where possible, with an error if they do not fit."""

import pytest
from hypothesis import given, strategies as st

from offsider.core.errors import InvalidArguments
from offsider.jobs.signature import JobSignature


def plain(a, b=2, c=3): ...
def only_positional(a, b=2, /): ...
def with_rest(a, *rest): ...
def with_keywords(a, *, flag, depth=1): ...
def with_any(a, **options): ...
def with_all(a, b=2, *rest, flag=False, **options): ...
def without(): ...


class Klass:
    def perform(self, a, b=2): ...


@pytest.mark.parametrize(
    "function, args, kwargs, stored",
    [
        (plain, (1,), {}, ([1], {})),
        (plain, (1, 5), {}, ([1, 5], {})),
        (plain, (1,), {"b": 5}, ([1, 5], {})),
        (plain, (1,), {"c": 9}, ([1, 2, 9], {})),
        (plain, (), {"c": 9, "a": 1}, ([1, 2, 9], {})),
        (only_positional, (1, 5), {}, ([1, 5], {})),
        (with_rest, (1, 2, 3), {}, ([1, 2, 3], {})),
        (with_keywords, (1,), {"flag": True}, ([1], {"flag": True})),
        (with_keywords, (), {"a": 1, "flag": True, "depth": 5}, ([1], {"flag": True, "depth": 5})),
        (with_any, (1,), {"x": 1, "y": 2}, ([1], {"x": 1, "y": 2})),
        (with_all, (1, 5, 6), {"flag": True, "x": 1}, ([1, 5, 6], {"flag": True, "x": 1})),
        (with_all, (1,), {"flag": True}, ([1], {"flag": True})),
        (without, (), {}, ([], {})),
    ],
)
def test_arguments_are_stored_by_position_and_keyword_only_ones_by_name(function, args, kwargs, stored):
    signature = JobSignature("x", function, is_method=False)
    assert signature.bind(args, kwargs) == stored
    assert signature.bind(*stored) == stored
    signature.check_fits(*stored)


@pytest.mark.parametrize(
    "function, args, kwargs, complaint",
    [
        (plain, (), {}, "missing a required argument: 'a'"),
        (plain, (1, 2, 3, 4), {}, "too many positional arguments"),
        (plain, (1,), {"d": 1}, "unexpected keyword argument 'd'"),
        (plain, (1,), {"a": 1}, "multiple values for argument 'a'"),
        (with_keywords, (1,), {}, "missing a required"),
        (with_keywords, (1, 2), {"flag": 1}, "too many positional"),
        (without, (1,), {}, "too many positional"),
    ],
)
def test_arguments_that_do_not_fit_raise_with_the_job_and_its_signature(function, args, kwargs, complaint):
    signature = JobSignature("HardJob", function, is_method=False)
    with pytest.raises(InvalidArguments) as caught:
        signature.bind(args, kwargs)
    assert str(caught.value).startswith("HardJob: ")
    assert complaint in str(caught.value)
    assert str(signature) in str(caught.value)
    with pytest.raises(InvalidArguments) as caught:
        signature.check_fits(args, kwargs)
    names = "".join(", 1 unknown name" if name == "d" else f", {name}" for name in kwargs)
    assert f"the stored arguments ({len(args)} positional{names}) do not match" in str(caught.value)
    assert str(signature) in str(caught.value)


def test_a_message_contains_no_arguments_and_stays_short():
    with pytest.raises(InvalidArguments) as caught:
        JobSignature("X", without, is_method=False).check_fits(["secret" * 1_000_000], {"key" * 1_000: "secret"})
    assert len(str(caught.value)) < 5000
    assert "secret" not in str(caught.value)


def test_a_method_is_seen_without_self():
    signature = JobSignature("Klass", Klass.perform, is_method=True)
    assert str(signature) == "Klass(a, b=2)"
    assert signature.bind((), {"a": 1}) == ([1], {})


def test_parameters_have_names_and_the_rest_has_numbers():
    signature = JobSignature("x", with_all, is_method=False)
    assert [signature.parameter_name(position) for position in range(4)] == ["a", "b", "rest[0]", "rest[1]"]


@given(
    st.sampled_from([plain, only_positional, with_rest, with_keywords, with_any, with_all, without]),
    st.lists(st.integers(), max_size=5),
    st.dictionaries(st.sampled_from(["a", "b", "c", "flag", "depth", "x"]), st.integers(), max_size=4),
)
def test_binding_is_equivalent_to_a_call(function, args, kwargs):
    def spy(*given, **named):
        import inspect

        bound = inspect.signature(function).bind(*given, **named)
        bound.apply_defaults()
        return bound.arguments

    signature = JobSignature("x", function, is_method=False)
    try:
        expected = spy(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidArguments):
            signature.bind(args, kwargs)
        return
    stored, named = signature.bind(args, kwargs)
    assert spy(*stored, **named) == expected


def digest(function) -> str:
    return JobSignature("J", function, is_method=False).digest


def other_name(a, z=2, c=3): ...
def other_order(a, c=2, b=3): ...
def one_more(a, b=2, c=3, d=4): ...
def one_required(a, b, c=3): ...
def by_name(a, b=2, *, c=3): ...
def collecting(a, b=2, *c): ...


@pytest.mark.parametrize("other", [other_name, other_order, one_more, one_required, by_name, collecting, without])
def test_a_digest_covers_names_kinds_order_and_required_parameters(other):
    assert digest(other) != digest(plain)


def test_a_digest_ignores_types_defaults_and_the_form_of_the_job():
    def typed(a: int, b: str = "x", c: object = None) -> bool:
        return True

    def positional(a, /, b=2, c=3): ...

    class Form:
        def perform(self, a, b=2, c=3): ...

    alike = [digest(typed), digest(positional), JobSignature("Form", Form.perform, is_method=True).digest]
    assert alike == [digest(plain)] * 3
    assert digest(plain) == "d5935786"  # written into payloads: it must not change
