"""What sets, queues, lists of extensions and the quarantine have in common: scans, exact counts and bulk actions."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions
from offsider.inspector import (
    DeadSet,
    ErrorGroups,
    HeldList,
    JobFilter,
    ProcessSet,
    Quarantine,
    Queue,
    RetrySet,
    ScheduledSet,
    Stats,
    WorkSet,
)
from offsider.inspector.job_counts import JobCounts
from offsider.storage.cluster import DEFAULT_PREFIX
from tests.redis.inspector.payloads import job, through

HELD = f"{DEFAULT_PREFIX}offsider:list"
PLACES = {
    "schedule": ScheduledSet,
    "retry": RetrySet,
    "dead": DeadSet,
    "queue": lambda config: Queue("default", config),
    "held": lambda config: HeldList(HELD, config),
}
BULK = {
    "retry": ("retry_all", "enqueue_all", "kill_all", "quarantine_all", "delete_all"),
    "queue": ("delete_all", "quarantine_all"),
}
ACTIONS = [(name, how) for name, every in BULK.items() for how in every]


def fill(client, name, numbers):
    """Jobs with these numbers; the first runs next."""
    if name in ("queue", "held"):
        client.lpush("queue:default" if name == "queue" else HELD, *map(job, numbers))
    else:
        client.zadd(name, {job(number): number for number in numbers})


@pytest.fixture(params=PLACES)
def place(request, config, raw_redis):
    """A place with 600 jobs."""
    fill(raw_redis, request.param, range(600))
    return PLACES[request.param](config)


@pytest.mark.parametrize("limits", [{"budget_ms": 10_000}, {"budget_ms": 0}, {"budget_ms": 10_000, "most": 7}], ids=str)
@pytest.mark.parametrize("wanted, found", [(JobFilter(), 600), (JobFilter(argument="7"), 1), (JobFilter(tag="x"), 0)])
def test_a_place_is_scanned_in_chunks(place, limits, wanted, found):
    chunks = through(place, wanted, **limits)
    assert len({entry.raw for chunk in chunks for entry in chunk.entries}) == found
    assert {chunk.total for chunk in chunks} == {600}
    assert sum(chunk.scanned for chunk in chunks) > 500  # in sets the server counts approximately
    assert (len(chunks) == 1) == (limits["budget_ms"] > 0 and ("most" not in limits or found < 7))
    assert all(len(chunk.entries) < 150 for chunk in chunks if "most" in limits)


@pytest.mark.parametrize("cursor", ["x", "-1", "9" * 30, "0x5", "٣"])
def test_an_invalid_cursor_starts_from_the_beginning(place, cursor):
    assert {entry.args[0] for chunk in [place.scan(JobFilter(), cursor, 10_000)] for entry in chunk.entries} >= {0}


@pytest.mark.parametrize("wanted, found", [(JobFilter(text='"args":[5'), 111), (JobFilter(), 600), (None, 600)])
def test_a_count_is_exact_also_in_parts(place, wanted, found):
    assert len(place.count(wanted)) == found
    counted, parts = place.count(wanted, budget_ms=0), 1
    while not counted.complete:
        assert counted.scanned <= 600
        counted, parts = place.count(counted, budget_ms=0), parts + 1
    assert (len(counted), parts > 3) == (found, True)


@pytest.mark.parametrize("wanted", [JobFilter(), JobFilter(name="HardJob")], ids=["all", "filter"])
@pytest.mark.parametrize("name, how", ACTIONS)
def test_a_bulk_action_applies_only_to_counted_unchanged_jobs(config, raw_redis, name, how, wanted):
    place = PLACES[name](config)
    fill(raw_redis, name, range(300))
    counted = place.count(wanted)
    if name == "queue":
        raw_redis.rpop("queue:default", 22)  # workers claimed them
    else:
        raw_redis.zrem("retry", *(job(number) for number in range(22)))
    fill(raw_redis, name, range(1_000, 1_005))
    assert getattr(place, how)(counted) == 278
    assert (len(counted), counted.done, counted.changed, counted.refused) == (300, 278, 22, 0)
    assert sorted(entry.args[0] for entry in place) == [1_000, 1_001, 1_002, 1_003, 1_004]


@pytest.mark.parametrize("wanted", [JobFilter(), JobFilter(name="HardJob")], ids=["all", "filter"])
@pytest.mark.parametrize("name, how", [*ACTIONS, ("quarantine", "restore_all")])
def test_a_timed_out_bulk_action_resumes_in_another_process(config, raw_redis, name, how, wanted):
    origin = "retry" if name == "quarantine" else name
    fill(raw_redis, origin, range(2_500))
    if origin == "retry":
        raw_redis.zadd("retry", {b"no job HardJob": 7})
    if name == "quarantine":
        RetrySet(config).quarantine_all()
    place = Quarantine(config) if name == "quarantine" else PLACES[name](config)
    server = Installation.of(config)
    counts = JobCounts(server, wanted, ["queue:default" if name == "queue" else name])
    counts.count()
    counts.keep()
    parts, (counted,) = 0, counts.counted.values()
    while not counted.finished:
        counts = JobCounts.read(server, counts.name)
        (counted,) = counts.counted.values()
        counts.act(how, {where: getattr(type(place), how) for where in counts.places}, 0)
        assert counted.under_way != counted.finished
        counts.keep()
        parts += 1
    assert parts > 1
    assert counted.done + counted.refused == len(counted) == 2_500 + (origin == "retry" and wanted.empty)
    assert counted.refused == (how in {"retry_all", "enqueue_all"} and wanted.empty)
    assert counted.changed == 0


@pytest.mark.parametrize("name, how", ACTIONS)
def test_a_filter_without_a_condition_changes_nothing(config, raw_redis, name, how):
    fill(raw_redis, name, [1])
    place = PLACES[name](config)
    with pytest.raises(InvalidOptions, match="empty JobFilter matches every job"):
        getattr(place, how)(JobFilter(name=""))
    assert len(place) == 1


@pytest.mark.parametrize("name", ["retry", "queue"])
def test_clearing_emits_an_event_for_every_job(config, raw_redis, removed, name):
    fill(raw_redis, name, range(120))
    place = PLACES[name](config)
    assert place.clear() == 120
    assert place.clear() == 0
    assert [(event.raw, event.how) for event in removed] == [(job(number), "clear") for number in range(120)]


@pytest.mark.parametrize("name", ["retry", "queue"])
def test_clearing_without_listeners_reads_no_job(config, raw_redis, name):
    fill(raw_redis, name, range(120))
    raw_redis.config_resetstat()
    assert PLACES[name](config).clear() == 120
    assert not {"cmdstat_zpopmin", "cmdstat_rpop"} & raw_redis.info("commandstats").keys()


@pytest.mark.parametrize("name", ["retry", "queue"])
def test_clearing_ends_when_others_are_quicker(config, raw_redis, name):
    config.on("job_removed", lambda event: raw_redis.delete("retry", "queue:default"))
    fill(raw_redis, name, range(3_000))
    assert PLACES[name](config).clear() == 1_000


@pytest.mark.parametrize(
    "kind", [DeadSet, Quarantine, lambda: Queue("default"), lambda: HeldList(HELD), ProcessSet, ErrorGroups, WorkSet]
)
def test_the_default_configuration_is_that_of_this_process(config, default_config, raw_redis, kind):
    fill(raw_redis, "dead", range(6))
    DeadSet(config).quarantine_all(JobFilter(argument="1"))
    fill(raw_redis, "queue", [1])
    fill(raw_redis, "held", [1])
    raw_redis.sadd("queues", "default")
    raw_redis.sadd("offsider:places", HELD)
    expected = {DeadSet: 5, ProcessSet: 0, ErrorGroups: 0, WorkSet: 0}.get(kind, 1)
    assert len(kind()) == expected
    assert ([queue.name for queue in Queue.all()], HeldList.keys(), Stats.read().dead) == (["default"], [HELD], 5)
