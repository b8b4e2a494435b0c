"""Which queues a shard serves: those it names, or those that the jobs of its query are sent to."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from offsider.core.characteristics import Characteristics
from offsider.core.query import Query
from offsider.wiring.routing import NO_RULES, Rules
from offsider.wiring.settings import ShardSection
from offsider.wiring.shards import Destination, destinations, queues_of, select, unserved

RULES = Rules.read([["urgency=high", "urgent"], ["resource_boundary=cpu", "heavy", "bulk"], ["tags=own", ""]])


@dataclass
class Declared:
    name: str
    characteristics: Characteristics = field(default_factory=Characteristics)
    declared_queue: str | None = None
    declared_server: str = ""


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
    return select([Query.parse(text) for text in queries], jobs, rules, {}, server=server, negate=negate)


def test_the_queues_of_the_chosen_jobs_come_in_the_order_of_the_rules():
    assert selected("*").queues == ("urgent", "scan", "low")
    assert selected("*", server="bulk").queues == ("heavy",)
    assert selected("name=report", "urgency=high").queues == ("urgent", "low")


def test_without_rules_the_declarations_say_where_jobs_go():
    assert selected("*", rules=NO_RULES).queues == ("default", "low")


def test_all_other_queues_of_declared_jobs_are_what_is_left():
    assert selected("urgency=high", negate=True).queues == ("scan", "low")
    assert selected("*", negate=True).queues == ()
    assert selected("urgency=high", negate=True, server="bulk").queues == ("heavy",)


@pytest.mark.parametrize("negate", [False, True])
def test_jobs_that_share_a_queue_with_chosen_ones_are_told(negate):
    assert selected("feature_category=accounts", negate=negate).mixed == (
        Destination("main", "urgent", ["app.welcome"], ["app.alarm"]),
    )
    assert selected("urgency=high", negate=negate).mixed == ()


def test_chosen_jobs_of_other_servers_are_told():
    assert selected("resource_boundary=cpu").elsewhere == (Destination("bulk", "heavy", ["app.resize"]),)
    assert selected("resource_boundary=cpu", server="bulk").elsewhere == (
        Destination("main", "urgent", ["app.alarm"], ["app.welcome"]),
    )
    assert selected("resource_boundary=cpu", negate=True).elsewhere == ()


def test_a_shard_serves_what_it_names_or_what_its_query_chooses():
    def queues(**settings):
        shard = ShardSection()
        for key, value in settings.items():
            shard.assign(key, value)
        return queues_of(shard, JOBS, RULES, {})

    assert queues(queues=["a,3", "b"]) == ("a", "b")
    assert queues(select="urgency=high") == ("urgent",)
    assert queues(select="resource_boundary=cpu", server="bulk") == ("heavy",)
    assert queues(select="urgency=throttled") == ()
    assert queues() == ()


def test_a_queue_is_served_on_its_own_server():
    found = destinations(JOBS, RULES, {})
    assert [str(each) for each in unserved(found, {"main": ["urgent", "low"], "bulk": ["*"]})] == ["scan"]
    assert [str(each) for each in unserved(found, {"main": {"*"}})] == ["heavy of the server bulk"]
    assert unserved(found, {"main": ["*"], "bulk": ["heavy"]}) == []
