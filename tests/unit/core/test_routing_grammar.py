"""Queries: a table of matches, syntax errors, and a naive evaluator that must always agree."""

import pytest
from hypothesis import given, settings, strategies as st

from offsider.core.characteristics import Characteristics
from offsider.core.errors import InvalidQuery
from offsider.core.routing_grammar import PREDICATES, Query

RESIZE = Characteristics(
    urgency="high",
    resource_boundary="cpu",
    feature_category="source_code",
    external_dependencies=True,
    tags=("slow", "needs.disk", "big-one"),
    queue_namespace="images",
).attributes("app.jobs.ResizeJob")
PLAIN = Characteristics().attributes("Ci::TraceWorker")
NEITHER, ONLY_RESIZE, ONLY_PLAIN, BOTH = (False, False), (True, False), (False, True), (True, True)

TABLE = [
    ("*", BOTH),
    (" * ", BOTH),
    ("urgency=high", ONLY_RESIZE),
    ("urgency=low", ONLY_PLAIN),
    ("urgency=throttled", NEITHER),
    ("urgency!=high", ONLY_PLAIN),
    ("urgency!=throttled", BOTH),
    ("urgency=high,low", BOTH),
    ("urgency!=high,low", NEITHER),
    ("urgency=low,throttled", ONLY_PLAIN),
    ("urgency=HIGH", NEITHER),
    ("resource_boundary=cpu", ONLY_RESIZE),
    ("resource_boundary=memory", NEITHER),
    ("resource_boundary!=cpu", ONLY_PLAIN),
    ("resource_boundary=none", ONLY_PLAIN),
    ("resource_boundary=unknown", ONLY_PLAIN),
    ("resource_boundary!=unknown", ONLY_RESIZE),
    ("resource_boundary=unknown,cpu", BOTH),
    ("resource_boundary!=none,memory", ONLY_RESIZE),
    ("feature_category=source_code", ONLY_RESIZE),
    ("feature_category=source", NEITHER),
    ("feature_category=search,source_code", ONLY_RESIZE),
    ("feature_category!=source_code", ONLY_PLAIN),
    ("feature_category!=search", BOTH),
    ("has_external_dependencies=true", ONLY_RESIZE),
    ("has_external_dependencies=false", ONLY_PLAIN),
    ("has_external_dependencies!=true", ONLY_PLAIN),
    ("has_external_dependencies!=false", ONLY_RESIZE),
    ("has_external_dependencies=true,false", BOTH),
    ("has_external_dependencies=TRUE", ONLY_PLAIN),
    ("has_external_dependencies=1", ONLY_PLAIN),
    ("tags=slow", ONLY_RESIZE),
    ("tags=needs.disk", ONLY_RESIZE),
    ("tags=big-one", ONLY_RESIZE),
    ("tags=big", NEITHER),
    ("tags=other,slow", ONLY_RESIZE),
    ("tags!=slow", ONLY_PLAIN),
    ("tags!=other", BOTH),
    ("tags!=other,slow", ONLY_PLAIN),
    ("tags=slow&tags=big-one", ONLY_RESIZE),
    ("tags=slow&tags=other", NEITHER),
    ("tags=slow&tags!=other", ONLY_RESIZE),
    ("worker_name=app.jobs.ResizeJob", ONLY_RESIZE),
    ("worker_name=ResizeJob", NEITHER),
    ("worker_name=Ci::TraceWorker", ONLY_PLAIN),
    ("worker_name=app.jobs.ResizeJob,Ci::TraceWorker", BOTH),
    ("worker_name!=Ci::TraceWorker", ONLY_RESIZE),
    ("name=images:resize", ONLY_RESIZE),
    ("name=resize", NEITHER),
    ("name=ci_trace", ONLY_PLAIN),
    ("name!=ci_trace", ONLY_RESIZE),
    ("queue_namespace=images", ONLY_RESIZE),
    ("queue_namespace!=images", ONLY_PLAIN),
    ("queue_namespace=other", NEITHER),
    ("urgency=high|urgency=low", BOTH),
    ("urgency=high&urgency=low", NEITHER),
    ("urgency=high&resource_boundary=cpu", ONLY_RESIZE),
    ("urgency=high&resource_boundary!=cpu", NEITHER),
    # "&" binds tighter than "|": read the other way round these would choose neither, or only one.
    ("urgency=low|urgency=high&tags=slow", BOTH),
    ("urgency=high|urgency=low&tags=slow", ONLY_RESIZE),
    ("tags=slow&urgency=high|urgency=low", BOTH),
    ("tags=other&urgency=high|urgency=low", ONLY_PLAIN),
    ("urgency=high&tags=other|resource_boundary=none&urgency=low", ONLY_PLAIN),
    ("urgency=low&tags!=slow|urgency=high&tags=slow", BOTH),
    ("urgency=throttled|tags=other|name=ci_trace", ONLY_PLAIN),
    (" urgency=high & tags=slow | name=ci_trace ", BOTH),
    ("urgency=high\n|\nurgency=low", BOTH),
    ("urgency!=throttled&has_external_dependencies=true&tags=slow&queue_namespace=images", ONLY_RESIZE),
]


@pytest.mark.parametrize("text, chosen", TABLE, ids=[text for text, _ in TABLE])
def test_a_query_selects_the_jobs_in_the_table(text, chosen):
    query = Query.parse(text)
    assert (query.matches(RESIZE), query.matches(PLAIN)) == chosen


def test_the_table_is_long():
    assert len({text for text, _ in TABLE}) >= 60


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "character 1: a term such as urgency=high is missing"),
        ("   ", "character 4: a term such as"),
        ("urgency", "character 1: expected a term such as urgency=high or tags!=slow,big, got 'urgency'"),
        ("urgency=", "character 1: expected a term"),
        ("urgency==high", "character 1: expected a term"),
        ("urgency = high", "character 1: expected a term"),
        ("=high", "character 1: expected a term"),
        ("urgency=high!", "character 13: unexpected '!'"),
        ("urgency=high urgency=low", "character 13: unexpected ' urgency=low'"),
        ("tags=a,,b", "character 7: unexpected ',,b'"),
        ("tags=a,", "character 7: unexpected ','"),
        ("tags=,a", "character 1: expected a term"),
        ("tags=a, b", "character 7: unexpected ', b'"),
        ("urgency=high&", "character 14: a term such as"),
        ("urgency=high|", "character 14: a term such as"),
        ("|urgency=high", "character 1: a term such as"),
        ("urgency=high&&tags=a", "character 14: a term such as"),
        ("urgency=high & *", "character 16: expected a term such as"),
        ("urgency=high|*", "character 14: expected a term such as"),
        ("**", "character 1: expected a term"),
        ("urgenci=high", "character 1: unknown predicate 'urgenci'; known are worker_name, name,"),
        ("tags=a & urgenci=high", "character 10: unknown predicate 'urgenci'"),
        ("external_dependencies=true", "character 1: unknown predicate 'external_dependencies'"),
        ("(urgency=high)", "character 1: expected a term"),
        ("urgency=high\nx", "character 13: unexpected"),
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


# ---------------------------------------------------------------------------- a naive evaluator

WORDS = ["high", "low", "cpu", "none", "unknown", "true", "false", "a", "b.c", "d-e", "F::G"]
TERMS = st.tuples(st.sampled_from(PREDICATES), st.booleans(), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
CLAUSES = st.lists(st.lists(TERMS, min_size=1, max_size=3), min_size=1, max_size=3)
JOBS = st.builds(
    Characteristics,
    urgency=st.sampled_from(["high", "low", "throttled"]),
    resource_boundary=st.sampled_from(["cpu", "memory", "none"]),
    feature_category=st.sampled_from(["", "a", "b.c"]),
    external_dependencies=st.booleans(),
    tags=st.lists(st.sampled_from(WORDS), max_size=3).map(tuple),
    queue_namespace=st.sampled_from(["", "a", "d-e"]),
)


def _naive(text, job, name):
    """The grammar once more, as a person would read it aloud."""

    def has(predicate, value):
        match predicate:
            case "worker_name":
                return name == value
            case "name":
                return job.generated_queue(name) == value
            case "has_external_dependencies":
                return job.external_dependencies == (value == "true")
            case "tags":
                return value in job.tags
            case "resource_boundary":
                return job.resource_boundary == {"unknown": "none"}.get(value, value)
            case _:
                return getattr(job, predicate) == value

    def holds(term):
        predicate, _, values = term.partition("=")
        found = any(has(predicate.removesuffix("!"), value) for value in values.split(","))
        return not found if predicate.endswith("!") else found

    return any(all(holds(term) for term in clause.split("&")) for clause in text.split("|"))


@settings(deadline=None)
@given(CLAUSES, JOBS, st.sampled_from(["F::G", "a", "x.low"]))
def test_a_naive_evaluator_agrees(clauses, job, name):
    text = "|".join(
        "&".join(f"{predicate}{'!=' if negated else '='}{','.join(values)}" for predicate, negated, values in clause)
        for clause in clauses
    )
    assert Query.parse(text).matches(job.attributes(name)) == _naive(text, job, name)


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
