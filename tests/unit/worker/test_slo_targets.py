"""What is promised of a class, and the labels of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from offsider import job
from offsider.config.config import Config
from offsider.core.slo import Target
from offsider.jobs import registry
from offsider.worker.slo_targets import SloTargets


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    with registry.isolated():
        yield


def declare(**options) -> str:
    @job(name="Declared", aliases=("Older",), **options)
    def declared() -> None: ...

    return declared.declared.name


def test_the_target_follows_from_the_urgency():
    config = Config()
    config.slo.low_queue_seconds = 20
    targets = SloTargets(config)
    assert targets.target(declare(urgency="high")) == Target(10.0, 10.0)
    assert targets.target("Older") == Target(10.0, 10.0)
    assert targets.target("Undeclared") == Target(20.0, 300.0)


def test_a_throttled_job_may_wait_for_ever():
    assert SloTargets(Config()).target(declare(urgency="throttled")) == Target(math.inf, 300.0)


def test_labels_come_from_the_job_and_the_worker():
    config = Config()
    config.worker.shard = "urgent"
    name = declare(urgency="high", feature_category="post", resource_boundary="cpu")
    assert SloTargets(config).labels(name, "default") == {
        "urgency": "high",
        "feature_category": "post",
        "boundary": "cpu",
        "shard": "urgent",
    }


@pytest.mark.parametrize("boundary", ["none", "unknown"])
def test_unset_characteristics_have_no_label(boundary):
    assert SloTargets(Config()).labels(declare(resource_boundary=boundary), "default") == {"urgency": "low"}
