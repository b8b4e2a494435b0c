"""A template writes the same bytes as the encoder."""

import pytest
from hypothesis import given, strategies as st

from offsider.client.alike import PayloadTemplate
from offsider.core.payload import encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
OTHERS = st.dictionaries(st.text().filter(lambda key: key not in {"args", "jid"}), JSON, max_size=3)


@given(before=OTHERS, between=OTHERS, after=OTHERS, args=st.lists(JSON, max_size=4))
def test_it_writes_the_same_bytes_for_any_order_of_keys(before, between, after, args):
    shared = {**before, "args": [], **between, "jid": "", **after}
    assert PayloadTemplate(shared).fill(args, "abc") == encode({**shared, "args": args, "jid": "abc"})


@pytest.mark.parametrize("value", [float("nan"), object(), {1j: 1}], ids=["nan", "object", "key"])
def test_values_that_are_not_json_raise(value):
    with pytest.raises((TypeError, ValueError)):
        PayloadTemplate({"args": [], "jid": "", "custom": value})
    with pytest.raises((TypeError, ValueError)):
        PayloadTemplate({"args": [], "jid": ""}).fill([value], "abc")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["],[", "]", "[[", '"],["'])
)
SHARED = {"class": "Ä", "args": [], "jid": "", "retry": True}


@given(st.lists(st.lists(SCALARS, max_size=3), min_size=1, max_size=5))
def test_all_at_once_are_the_same_bytes_as_one_by_one(calls):
    template, jids = PayloadTemplate(SHARED), [f"{number:x}" for number in range(len(calls))]
    raws = template.fill_all(calls, jids)
    assert raws in (None, [*map(template.fill, calls, jids)])
    assert raws is not None or any("],[" in str(value) for args in calls for value in args)


NO_SCALARS = [[1], {}, float("nan"), "\ud800", "a],[b", (1,), pytest.param(10**5_000, id="digits"), object()]


@pytest.mark.parametrize("value", NO_SCALARS)
def test_other_values_are_left_to_the_single_encoder(value):
    assert PayloadTemplate(SHARED).fill_all([[1], [value]], ["a", "b"]) is None
