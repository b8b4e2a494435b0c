"""Which queues a shard serves: those it names, or those that the jobs of its query are sent to."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from offsider.config.config import Config
from offsider.config.routing import NO_RULES, Rules, route
from offsider.config.settings import ShardSection
from offsider.core.characteristics import Characteristics, Query
from offsider.jobs import registry, routes
from offsider.jobs.routes import RoutedQueue, Routes, routes_of, unserved

RULES = Rules.read([["urgency=high", "urgent"], ["resource_boundary=cpu", "heavy", "bulk"], ["tags=own", ""]])


@dataclass
class Declared:
    name: str
    characteristics: Characteristics = field(default_factory=Characteristics)
    declared_queue: str | None = None
    declared_server: str = ""
    declared_retry_queue: str = ""


def declared(name: str, queue: str | None = None, **characteristics) -> Declared:
    return Declared(name, Characteristics(**characteristics), queue)


JOBS = [
    declared("app.report", "low"),
    declared("app.resize", resource_boundary="cpu"),
    declared("app.scan", tags=("own",), feature_category="media"),
    declared("app.welcome", urgency="high", feature_category="accounts"),
    declared("app.alarm", urgency="high", resource_boundary="cpu"),
]


def selected(*queries, negate=False, server="main", rules=RULES, jobs=JOBS):
    return Routes(jobs, rules, {}).select([Query.parse(text) for text in queries], server=server, negate=negate)


def test_queues_of_selected_jobs_follow_the_order_of_the_rules():
    assert selected("*").queues == ("urgent", "scan", "low")
    assert selected("*", server="bulk").queues == ("heavy",)
    assert selected("name=report", "urgency=high").queues == ("urgent", "low")


def test_without_rules_declarations_select_the_queues():
    assert selected("*", rules=NO_RULES).queues == ("default", "low")


def test_the_remaining_queues_are_all_other_queues_of_declared_jobs():
    assert selected("urgency=high", negate=True).queues == ("scan", "low")
    assert selected("*", negate=True).queues == ()
    assert selected("urgency=high", negate=True, server="bulk").queues == ("heavy",)


def test_a_shard_serves_its_named_queues_or_those_its_query_selects():
    def queues(**settings):
        shard = ShardSection()
        for key, value in settings.items():
            shard.assign(key, value)
        return Routes(JOBS, RULES, {}).queues_of(shard)

    assert queues(queues=["a,3", "b"]) == ("a", "b")
    assert queues(select="urgency=high") == ("urgent",)
    assert queues(select="resource_boundary=cpu", server="bulk") == ("heavy",)
    assert queues(select="urgency=throttled") == ()
    assert queues() == ()


def test_a_queue_is_served_on_its_own_server():
    found = Routes(JOBS, RULES, {}).destinations()
    assert [str(each) for each in unserved(found, {"main": ["urgent", "low"], "bulk": ["*"]})] == ["scan"]
    assert [str(each) for each in unserved(found, {"main": {"*"}})] == ["heavy of the server bulk"]
    assert unserved(found, {"main": ["*"], "bulk": ["heavy"]}) == []


@pytest.fixture
def routed(monkeypatch):
    """The configuration whose routes are kept, its declared jobs, and the names of jobs in the order of routing."""
    config, jobs, names = Config(), [*JOBS], []
    config.routing.rules = RULES

    def note(job, rules, defaults):
        names.append(job.name)
        return route(job, rules, defaults)

    monkeypatch.setattr(routes, "route", note)
    monkeypatch.setattr(registry, "all_jobs", lambda: [*jobs])
    return config, jobs, names


def test_each_job_is_routed_once_for_all_shards_and_calls(routed):
    config, _, names = routed
    shard = ShardSection()
    shard.assign("select", "urgency=high")
    for _ in range(3):
        routes = routes_of(config)
        assert (routes.queues_of(shard), len(routes.destinations())) == (("urgent",), 4)
    assert names == [job.name for job in JOBS]


def test_routes_are_recomputed_when_rules_defaults_or_jobs_change(routed):
    config, jobs, names = routed

    def places():
        return [str(each) for each in routes_of(config).destinations()]

    assert places() == ["urgent", "heavy of the server bulk", "scan", "low"]
    config.routing.rules = [["*", "all"]]
    assert places() == ["all"]
    config.routing.rules = []
    assert places() == ["default", "low"]
    config.jobs["queue"] = "usual"
    assert places() == ["low", "usual"]
    jobs[0] = declared("app.report", "lowest")
    assert places() == ["lowest", "usual"]
    del jobs[1:]
    assert places() == ["lowest"]
    assert len(names) == 5 * len(JOBS) + 1


def test_further_destinations_belong_to_no_query():
    further = [RoutedQueue("main", "low", ["task"]), RoutedQueue("bulk", "tasks", ["task"])]
    routes = Routes(JOBS[:1], Rules(), {}, further)
    assert {str(each): each.chosen for each in routes.destinations()} == {
        "low": ["app.report", "task"],
        "tasks of the server bulk": ["task"],
    }
    (mixed,) = routes.select([Query.parse("*")], server="main").mixed
    assert (mixed.chosen, mixed.others) == (["app.report"], ["task"])
