"""Shards that leave jobs waiting or do nothing are found; possible intentions are only noted."""

from __future__ import annotations

import pytest

from offsider import job
from offsider.config.routing import Rules
from offsider.config.settings import ShardSection
from offsider.fleet.shards import plan_shards, served_by, worth_knowing, wrong_with
from offsider.jobs import registry
from offsider.jobs.routes import Routes

RULES = Rules.read([["urgency=high", "urgent"], ["resource_boundary=cpu", "heavy", "bulk"], ["*", "default"]])


@pytest.fixture(autouse=True)
def jobs(nothing_declared):
    for name, declaration in {
        "send": {"urgency": "high"},
        "resize": {"resource_boundary": "cpu"},
        "report": {},
        "archive": {},
    }.items():

        @job(name=name, **declaration)
        def declared(): ...

        declared.declared.qualname = name
    return registry.all_jobs()


def plans(jobs, **shards):
    sections = {}
    for name, settings in shards.items():
        sections[name] = ShardSection()
        for key, value in settings.items():
            sections[name].assign(key, value)
    return plan_shards(sections, Routes(jobs, RULES, {}))


def checked(jobs, **shards):
    planned, found = plans(jobs, **shards), Routes(jobs, RULES, {}).destinations()
    return [*wrong_with(planned, found)], [*worth_knowing(planned, found)]


GOOD = {
    "urgent": {"select": "urgency=high"},
    "bulk": {"queues": ["heavy"], "server": "bulk"},
    "catchall": {"queues": ["default"]},
}


def test_a_shard_for_each_queue_is_well(jobs):
    assert checked(jobs, **GOOD) == ([], [])


def test_a_shard_of_another_server_than_the_one_of_its_jobs_is_wrong(jobs):
    shards = {**GOOD, "bulk": {"queues": ["heavy"]}}
    assert checked(jobs, **shards) == (
        ["the shard bulk serves the server main, but the jobs of its queue heavy go to the server bulk: resize"],
        [],
    )


def test_a_shard_that_serves_nothing_is_wrong(jobs):
    assert checked(jobs, **GOOD, none={"select": "urgency=throttled"})[0] == [
        "the shard none serves nothing: no job that 'urgency=throttled' selects goes to its server, main"
    ]


def test_possible_intentions_are_noted(jobs):
    more = {"second": {"queues": ["default", "urgent"]}, "ruby": {"queues": ["mailers", "exports"]}}
    assert checked(jobs, **GOOD, **more) == (
        [],
        [
            "default is served by 2 shards: catchall, second",
            "urgent is served by 2 shards: second, urgent",
            "no declared job goes to exports, mailers, which the shard ruby serves",
        ],
    )


def test_every_queue_of_a_server_is_served_by_a_star(jobs):
    planned = plans(jobs, all={"queues": ["*"]}, bulk=GOOD["bulk"])
    assert served_by(planned) == {"main": {"*"}, "bulk": {"heavy"}}
    assert checked(jobs, all={"queues": ["*"]}, bulk=GOOD["bulk"]) == ([], [])
