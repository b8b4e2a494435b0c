"""How many runs kept what was promised."""

from __future__ import annotations

import pytest

from offsider.core.objectives import Score
from offsider.core.series import Series
from offsider.storage import run_counts, slo_counts

NOW = 1_800_000_000.0  # a whole hour since the epoch


def series(name: str = "Mail", queue: str = "q", **labels: str) -> Series:
    return Series({"class": name, "queue": queue, **labels}, processed=10, failed=1, satisfied=7)


def write(pool, *each: Series, at: float = NOW) -> None:
    run_counts.add(pool, [], each, at, wire_version=8)


def total(pool, window: str, now: float = NOW) -> int:
    return sum(score.total for _, score in slo_counts.read(pool, now)[window])


def test_a_class_is_counted_by_what_it_says_of_itself_and_not_by_queue_or_the_labels_of_others(pool):
    told = {"urgency": "high", "feature_category": "post", "boundary": "cpu", "shard": "urgent"}
    write(pool, series(**told, tenant="acme"), series(queue="other", **told), series(urgency="low"))
    for window in ("1h", "6h", "3d"):
        assert sorted(slo_counts.read(pool, NOW)[window], key=lambda each: each[1].total) == [
            ({"class": "Mail", "urgency": "low"}, Score(10, 1, 2)),
            ({"class": "Mail", **told}, Score(20, 2, 4)),
        ]


def test_a_window_has_what_lies_in_it(pool):
    for minutes in (1, 45, 70, 350, 400, 4000, 5000):
        write(pool, series(), at=NOW - minutes * 60)
    assert {window: total(pool, window) for window in ("1h", "6h", "3d")} == {"1h": 20, "6h": 40, "3d": 60}


def test_nothing_is_kept_for_longer_than_it_is_looked_at(pool, raw_redis):
    write(pool, series())
    ten, hour = sorted(raw_redis.keys("offsider:slo:*"))
    assert 7 * 3600 < raw_redis.ttl(ten) <= 8 * 3600
    assert 72 * 3600 < raw_redis.ttl(hour) <= 80 * 3600


def test_a_class_that_does_well_costs_one_field(pool, raw_redis):
    write(pool, Series({"class": "Mail", "urgency": "low"}, processed=3, satisfied=3))
    assert raw_redis.hgetall(f"offsider:slo:1h:{int(NOW // 3600)}") == {b'{"class":"Mail","urgency":"low"}|t': b"3"}


@pytest.mark.parametrize(
    "field,value", [("{}|t", "1"), ("[1]|t", "1"), ("junk|t", "1"), ('{"class":"A"}|t', "many"), ('{"class":1}|t', "1")]
)
def test_what_others_wrote_there_is_passed_over(pool, raw_redis, field, value):
    raw_redis.hset(f"offsider:slo:1h:{int(NOW // 3600)}", field, value)
    raw_redis.set(f"offsider:slo:10m:{int(NOW // 600)}", "no hash")
    assert slo_counts.read(pool, NOW) == {"1h": [], "6h": [], "3d": []}


def test_what_nobody_adds_to_any_more_is_read_once(pool, raw_redis):
    past = slo_counts.Past()
    for minutes in (1, 45, 350, 4000):
        write(pool, series(), at=NOW - minutes * 60)
    seen = slo_counts.read(pool, NOW, past)
    assert seen == slo_counts.read(pool, NOW)
    raw_redis.delete(f"offsider:slo:1h:{int((NOW - 4000 * 60) // 3600)}")
    assert slo_counts.read(pool, NOW, past) == seen
    write(pool, series(), at=NOW - 15 * 60)
    assert slo_counts.read(pool, NOW, past)["1h"][0][1].total == seen["1h"][0][1].total + 10
    later = slo_counts.read(pool, NOW + 3600, past)
    assert later == slo_counts.read(pool, NOW + 3600)


def test_what_could_not_be_read_is_read_again(pool, raw_redis):
    past, key = slo_counts.Past(), f"offsider:slo:10m:{int((NOW - 3000) // 600)}"
    raw_redis.set(key, "no hash")
    assert slo_counts.read(pool, NOW, past)["1h"] == []
    raw_redis.delete(key)
    write(pool, series(), at=NOW - 3000)
    assert slo_counts.read(pool, NOW, past)["1h"][0][1].total == 10
