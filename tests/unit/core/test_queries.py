"""Queries: a table of matches, and of syntax errors."""

import pytest
from hypothesis import given, settings, strategies as st

from offsider.core.characteristics import Characteristics, Query
from offsider.core.errors import InvalidQuery

RESIZE = Characteristics(
    urgency="high",
    resource_boundary="cpu",
    feature_category="source_code",
    external_dependencies=True,
    tags=("slow", "needs.disk", "big-one"),
).attributes("app.jobs.ResizeJob")
PLAIN = Characteristics().attributes("Ci::TraceWorker")
NEITHER, ONLY_RESIZE, ONLY_PLAIN, BOTH = (False, False), (True, False), (False, True), (True, True)

TABLE = [
    ("*", BOTH),
    (" * ", BOTH),
    ("urgency=high", ONLY_RESIZE),
    ("urgency=low", ONLY_PLAIN),
    ("urgency!=high", ONLY_PLAIN),
    ("urgency=high,low", BOTH),
    ("urgency!=high,low", NEITHER),
    ("urgency=HIGH", NEITHER),
    ("resource_boundary=cpu", ONLY_RESIZE),
    ("resource_boundary=none", ONLY_PLAIN),
    ("resource_boundary=unknown", ONLY_PLAIN),
    ("resource_boundary!=unknown", ONLY_RESIZE),
    ("feature_category=source_code", ONLY_RESIZE),
    ("has_external_dependencies=true", ONLY_RESIZE),
    ("has_external_dependencies=TRUE", ONLY_PLAIN),
    ("has_external_dependencies=1", ONLY_PLAIN),
    ("tags=slow", ONLY_RESIZE),
    ("tags=needs.disk", ONLY_RESIZE),
    ("tags=big", NEITHER),
    ("tags!=other,slow", ONLY_PLAIN),
    ("tags=slow&tags=big-one", ONLY_RESIZE),
    ("tags=slow&tags=other", NEITHER),
    ("worker_name=app.jobs.ResizeJob", ONLY_RESIZE),
    ("worker_name=Ci::TraceWorker", ONLY_PLAIN),
    ("name=resize", ONLY_RESIZE),
    ("name=ci_trace", ONLY_PLAIN),
    ("urgency=high|urgency=low", BOTH),
    ("urgency=high&urgency=low", NEITHER),
    ("urgency=high&resource_boundary=cpu", ONLY_RESIZE),
    # "&" binds tighter than "|": read the other way round these would choose neither, or only one.
    ("urgency=low|urgency=high&tags=slow", BOTH),
    ("urgency=high|urgency=low&tags=slow", ONLY_RESIZE),
    ("urgency=high&tags=other|resource_boundary=none&urgency=low", ONLY_PLAIN),
    (" urgency=high & tags=slow | name=ci_trace ", BOTH),
    ("urgency=high\n|\nurgency=low", BOTH),
]


@pytest.mark.parametrize("text, chosen", TABLE, ids=[text for text, _ in TABLE])
def test_a_query_selects_the_jobs_in_the_table(text, chosen):
    query = Query.parse(text)
    assert (query.matches(RESIZE), query.matches(PLAIN)) == chosen


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "character 1: a term such as urgency=high is missing"),
        ("urgency", "character 1: expected a term such as urgency=high or tags!=slow,big, got 'urgency'"),
        ("urgency = high", "character 1: expected a term"),
        ("urgency=high!", "character 13: unexpected '!'"),
        ("urgency=high urgency=low", "character 13: unexpected ' urgency=low'"),
        ("tags=a,,b", "character 7: unexpected ',,b'"),
        ("tags=a, b", "character 7: unexpected ', b'"),
        ("urgency=high&", "character 14: a term such as"),
        ("|urgency=high", "character 1: a term such as"),
        ("urgency=high&&tags=a", "character 14: a term such as"),
        ("urgency=high & *", "character 16: expected a term such as"),
        ("**", "character 1: expected a term"),
        ("urgenci=high", "character 1: unknown predicate 'urgenci'; known are worker_name, name,"),
        ("external_dependencies=true", "character 1: unknown predicate 'external_dependencies'"),
        ("queue_namespace=images", "character 1: the option queue_namespace was removed: write queue="),
        ("(urgency=high)", "character 1: expected a term"),
    ],
)
def test_a_syntax_error_names_its_position(text, complaint):
    with pytest.raises(InvalidQuery) as caught:
        Query.parse(text)
    assert str(caught.value).startswith(f"{text!r}, {complaint}")


def test_impossible_values_are_detected():
    (term,) = Query.parse("urgency=high,hihg").terms
    assert term.impossible() == ("hihg",)
    assert [term.impossible() for term in Query.parse("tags=hihg|resource_boundary=none").terms] == [(), ()]


@settings(deadline=None)
@given(st.text(alphabet="urgency=high!&|*, .-:tags", max_size=30))
def test_any_text_is_a_query_or_an_error_with_a_place(text):
    try:
        query = Query.parse(text)
    except InvalidQuery as error:
        message = str(error)
    else:
        message = f"character {query.matches(RESIZE):d}"
    assert "character" in message
