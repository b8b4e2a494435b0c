"""Where stored jobs belong."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from offsider import Config, job
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.inspector.migration.judge import Judge, Judged, Moves, Place, Stays, Why
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def jobs() -> Iterator[None]:
    with registry.isolated():

        @job(name="shop.mail", aliases=["mail"], urgency="high")
        def mail(to: str) -> None: ...

        @job(name="shop.report", queue="reports")
        def report() -> None: ...

        yield


@pytest.fixture
def config() -> Config:
    config = Config()
    config.add_server("bulk", url="redis://localhost:1/0")
    config.routing.rules = [["urgency=high", "urgent"], ["worker_name=shop.report", "slow", "bulk"]]
    return config


def judge(
    config: Config, name: str, queue: str | None, *, inside: str = "old", server: str = "main", **given
) -> Judged:
    extra = given.pop("extra", {})
    options = {"from_queues": [], "names": [], "renames": {}, **given}
    raw = json.dumps({"class": name, "args": [], "queue": inside, **extra}).encode()
    return Judge(config, **options).judge(raw, server, queue)


def way(judged: Judged) -> tuple[str, str, str, str] | Why:
    if isinstance(judged, Stays):
        return judged.why
    return judged.here.server, judged.here.queue, judged.there.server, judged.there.queue


def test_a_job_moves_where_the_rules_route_it(config):
    assert way(judge(config, "shop.mail", "default")) == ("main", "default", "main", "urgent")
    assert way(judge(config, "shop.mail", "urgent")) is Why.IN_PLACE
    assert way(judge(config, "shop.report", "slow")) == ("main", "slow", "bulk", "slow")
    assert way(judge(config, "shop.report", "slow", server="bulk")) is Why.IN_PLACE


def test_without_rules_it_moves_to_its_declared_queue():
    assert way(judge(Config(), "shop.report", "default")) == ("main", "default", "main", "reports")
    assert way(judge(Config(), "shop.mail", "reports")) == ("main", "reports", "main", "default")


def test_an_alias_counts_as_its_job(config):
    judged = judge(config, "mail", "default")
    assert isinstance(judged, Moves)
    assert judged.there == Place("main", "urgent")
    assert judged.payload["class"] == "mail"


def test_a_job_of_a_set_is_meant_for_the_queue_that_it_names(config):
    assert way(judge(config, "shop.mail", None)) == ("main", "old", "main", "urgent")
    assert way(judge(config, "shop.mail", None, inside="urgent")) is Why.IN_PLACE
    raw = b'{"class":"shop.mail","args":[]}'
    judged = Judge(config, from_queues=[], names=[], renames={}).judge(raw, "main", None)
    assert judged == Stays(Why.UNREADABLE, "shop.mail")


def test_undeclared_and_invalid_jobs_are_left_alone(config):
    assert judge(config, "Ruby::HardJob", "default") == Stays(Why.UNDECLARED, "Ruby::HardJob")
    assert Judge(config, from_queues=[], names=[], renames={}).judge(b"{", "main", "q") == Stays(Why.UNREADABLE)


def test_a_job_that_was_retried_in_another_queue_on_purpose_stays_there(config):
    failed = {"retry_queue": "again", "retry_count": 0}
    assert way(judge(config, "shop.mail", "again", extra=failed)) is Why.IN_PLACE
    assert way(judge(config, "shop.mail", "again", extra={"retry_queue": "again"})) != Why.IN_PLACE
    assert way(judge(config, "shop.mail", "default", extra=failed)) != Why.IN_PLACE


def test_queues_and_names_narrow_the_choice(config):
    assert way(judge(config, "shop.mail", "default", from_queues=["other"])) is Why.NOT_SELECTED
    assert way(judge(config, "shop.mail", "default", from_queues=["default"])) == ("main", "default", "main", "urgent")
    assert way(judge(config, "shop.report", "default", names=["mail"])) is Why.NOT_SELECTED
    assert way(judge(config, "shop.mail", "default", names=["mail"])) == ("main", "default", "main", "urgent")
    assert way(judge(config, "Ruby::HardJob", "default", names=["Ruby::HardJob"])) is Why.UNDECLARED


def test_a_rename_moves_all_jobs_of_a_queue_without_rules(config):
    renames = {"old": "new"}
    assert way(judge(config, "Ruby::HardJob", "old", renames=renames)) == ("main", "old", "main", "new")
    assert way(judge(config, "shop.mail", "old", renames=renames, server="bulk")) == ("bulk", "old", "bulk", "new")
    assert way(judge(config, "shop.mail", "default", renames=renames)) is Why.NOT_SELECTED


def test_renames_in_a_row_or_a_ring_and_odd_names_are_refused(config):
    with pytest.raises(ConfigurationError, match="queue b is both an old and a new name"):
        judge(config, "A", "a", renames={"a": "b", "b": "c"})
    with pytest.raises(InvalidOptions, match="the new name of a must be a string"):
        judge(config, "A", "a", renames={"a": ""})
