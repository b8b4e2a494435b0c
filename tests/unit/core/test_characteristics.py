"""Characteristics: impossible ones are refused by name, and a job without any has the usual ones."""

import pytest

from offsider.core.characteristics import Characteristics, generated_name
from offsider.core.errors import InvalidOptions
from offsider.core.options import check_declaration


@pytest.mark.parametrize(
    "declared, complaint",
    [
        ({"urgency": "urgent"}, "urgency must be one of high, low, throttled, got 'urgent'"),
        ({"urgency": None}, "urgency must be one of"),
        ({"urgency": ["high"]}, "urgency must be one of"),
        ({"resource_boundary": "disk"}, "resource_boundary must be one of cpu, memory, none, unknown"),
        ({"feature_category": ""}, "feature_category must be letters"),
        ({"feature_category": "two words"}, "feature_category must be letters"),
        ({"feature_category": 7}, "feature_category must be letters"),
        ({"external_dependencies": "true"}, "external_dependencies must be true or false"),
        ({"idempotent": 1}, "idempotent must be true or false"),
    ],
)
def test_impossible_characteristics_are_refused_with_the_name_of_the_job(declared, complaint):
    with pytest.raises(InvalidOptions) as caught:
        check_declaration(declared, job_name="app.resize")
    assert str(caught.value).startswith(f"app.resize: {complaint}")


def test_possible_ones_and_other_options_pass():
    check_declaration(
        {
            "queue": "low",
            "urgency": "throttled",
            "resource_boundary": "memory",
            "feature_category": "source-code.search",
            "external_dependencies": True,
            "idempotent": True,
        },
        job_name="app.resize",
    )


def test_unknown_and_none_are_the_same_boundary():
    assert Characteristics.of({"resource_boundary": "unknown"}) == Characteristics.of({"resource_boundary": "none"})


@pytest.mark.parametrize(
    "name, queue",
    [
        ("app.jobs.ResizeImageJob", "resize_image"),
        ("PostReceiveWorker", "post_receive"),
        ("Ci::ArchiveTraceWorker", "ci_archive_trace"),
        ("app.HTMLParserJob", "html_parser"),
        ("app.Sha256Digest", "sha256_digest"),
        ("app.resize_image", "resize_image"),
        ("app.resize_image_job", "resize_image"),
        ("app.tests.make.<locals>.resize_worker", "resize"),
        ("app.Job", "job"),
        ("app.Worker", "worker"),
        ("app.WorkerJob", "worker"),
        ("app.Homework", "homework"),
        ("app.JobWorker", "job"),
        ("app.<lambda>", "_lambda_"),
        ("app.größe", "gr__e"),
        ("odd.", "_"),
    ],
)
def test_a_queue_is_named_after_the_last_part_of_the_name(name, queue):
    assert generated_name(name) == queue


@pytest.mark.parametrize(
    "declaration, doubts",
    [
        ({"urgency": "high"}, 0),
        ({"urgency": "low", "external_dependencies": True, "resource_boundary": "memory"}, 0),
        ({"urgency": "high", "external_dependencies": True}, 1),
        ({"urgency": "high", "external_dependencies": True, "resource_boundary": "memory"}, 2),
    ],
)
def test_a_job_that_promises_more_than_it_can_keep_is_doubted(declaration, doubts):
    assert len(Characteristics.of(declaration).doubts) == doubts


@pytest.mark.parametrize(
    "options, until",
    [
        ({}, "until_executing"),
        ({"unique_until": None, "unique_for": None}, "until_executing"),
        ({"unique_until": "until_executed"}, "until_executed"),
        ({"unique_until": "none"}, "none"),
        ({"unique_for": 60}, None),
        ({"unique_for": False}, None),
    ],
)
def test_an_idempotent_job_is_deduplicated_by_default(options, until):
    assert Characteristics(idempotent=True).unique_until(options) == until
    assert Characteristics().unique_until(options) == options.get("unique_until")
