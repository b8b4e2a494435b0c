"""Live and dead owners by the server's clock: none is dead at the first check (rules 1, 2, 7, 22)."""

import json

import pytest

from offsider.core.errors import Fenced
from offsider.storage import owners
from offsider.storage.owners import Claimed, Lists
from offsider.storage.working import Owner, PrivateListEntry
from tests.snapshot import snapshot

IDENTITY = "host:1:aaaaaaaaaaaa"
LISTS = Lists(IDENTITY, {"default": ("high", "low")})
ALIVE, FENCED = f"offsider:alive:{IDENTITY}", f"offsider:fenced:{IDENTITY}"
WORKING = f"offsider:working:{IDENTITY}:default:low"
LIFE_MS = 45_000


def age(raw_redis, seconds: float, *, looks: int, last_seconds_ago: float = 0.0) -> None:
    """Write down that looks were made: the first ``seconds`` ago, the last ``last_seconds_ago``."""
    now = raw_redis.time()[0]
    first, last = int((now - seconds) * 1000), int((now - last_seconds_ago) * 1000)
    raw_redis.hset("offsider:suspects", IDENTITY, f"{first}:{last}:{looks}")


# --------------------------------------------------------------------------------------- beat


def test_a_heartbeat_registers_the_lists_and_clears_a_suspicion(pool, raw_redis):
    raw_redis.hset("offsider:suspects", mapping={IDENTITY: "1:2:3", f"{IDENTITY} empty": 1, "other": "1:2:3"})
    owners.beat(pool, LISTS, LIFE_MS)
    assert snapshot(raw_redis) == {
        ALIVE: b"1",
        "offsider:owners": {IDENTITY.encode(): b'{"default": ["high", "low"]}'},
        "offsider:suspects": {b"other": b"1:2:3"},
    }
    assert LIFE_MS - 5000 < raw_redis.pttl(ALIVE) <= LIFE_MS
    assert owners.registered(pool) == [LISTS]


def test_a_beat_of_a_fenced_owner_writes_nothing(pool, raw_redis):
    raw_redis.set(FENCED, 1)
    with pytest.raises(Fenced):
        owners.beat(pool, LISTS, LIFE_MS)
    assert snapshot(raw_redis) == {FENCED: b"1"}


def test_a_beat_on_behalf_of_an_owner_prolongs_its_life_and_leaves_its_registration(pool, raw_redis):
    owners.beat(pool, LISTS, 5000)
    assert owners.prolong(pool, IDENTITY, LIFE_MS)
    assert LIFE_MS - 5000 < raw_redis.pttl(ALIVE) <= LIFE_MS
    assert owners.lists_of(pool, IDENTITY) == LISTS


def test_a_beat_on_behalf_of_a_suspected_owner_clears_the_suspicion(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    raw_redis.delete(ALIVE)
    raw_redis.hset("offsider:suspects", mapping={IDENTITY: "1:2:3", f"{IDENTITY} empty": 1})
    assert owners.prolong(pool, IDENTITY, LIFE_MS)
    assert LIFE_MS - 5000 < raw_redis.pttl(ALIVE) <= LIFE_MS
    assert not raw_redis.exists("offsider:suspects")
    assert owners.lists_of(pool, IDENTITY) == LISTS


def test_a_beat_on_behalf_of_an_owner_that_has_left_does_not_put_it_back(pool, raw_redis):
    assert not owners.prolong(pool, IDENTITY, LIFE_MS)
    assert snapshot(raw_redis) == {}
    assert owners.lists_of(pool, IDENTITY) is None


def test_a_beat_on_behalf_of_a_fenced_owner_writes_nothing(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    owners.fence(pool, LISTS, how="was killed by SIGKILL")
    before = snapshot(raw_redis)
    assert not owners.prolong(pool, IDENTITY, LIFE_MS)
    assert snapshot(raw_redis) == before


def test_an_entry_of_the_registry_that_cannot_be_read_does_not_hide_the_others(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    raw_redis.hset("offsider:owners", mapping={"a": "{", "b": "[]", "c": '{"default": 1}', b"\xff": "{}"})
    assert owners.registered(pool) == [LISTS]


# --------------------------------------------------------------------------------------- look


@pytest.fixture
def registered(raw_redis):
    raw_redis.hset("offsider:owners", IDENTITY, json.dumps(LISTS.queues))


def look(pool) -> list[str]:
    return owners.look(pool, [IDENTITY], LIFE_MS)


@pytest.mark.usefixtures("registered")
def test_no_owner_is_declared_dead_at_the_first_check(pool, raw_redis):
    """A server that was frozen past a liveness life finds every owner silent at once."""
    assert look(pool) == []
    first, last, looks = raw_redis.hget("offsider:suspects", IDENTITY).split(b":")
    assert (first, looks) == (last, b"1")


@pytest.mark.usefixtures("registered")
def test_an_owner_silent_for_three_checks_over_a_third_of_its_lifetime_is_dead(pool, raw_redis):
    age(raw_redis, 16, looks=2, last_seconds_ago=3)
    assert look(pool) == [IDENTITY]


@pytest.mark.parametrize(
    "seconds, looks, last_seconds_ago",
    [
        pytest.param(16, 1, 3, id="two looks are too few"),
        pytest.param(13, 20, 3, id="less than a third of a life, however many looks"),
        pytest.param(60, 20, 13, id="a gap of more than a quarter of a life between looks"),
        pytest.param(-100, 20, -50, id="the clock went back"),
    ],
)
@pytest.mark.usefixtures("registered")
def test_a_shorter_silence_is_not_a_death(pool, raw_redis, seconds, looks, last_seconds_ago):
    age(raw_redis, seconds, looks=looks, last_seconds_ago=last_seconds_ago)
    assert look(pool) == []


@pytest.mark.parametrize("last_seconds_ago", [13, -50])
@pytest.mark.usefixtures("registered")
def test_after_a_gap_the_count_restarts(pool, raw_redis, last_seconds_ago):
    age(raw_redis, 60, looks=20, last_seconds_ago=last_seconds_ago)
    look(pool)
    first, last, looks = raw_redis.hget("offsider:suspects", IDENTITY).split(b":")
    assert (first, looks) == (last, b"1")


@pytest.mark.usefixtures("registered")
def test_a_heartbeat_between_two_checks_clears_the_suspicion(pool, raw_redis):
    age(raw_redis, 60, looks=20)
    raw_redis.set(ALIVE, 1)
    assert look(pool) == []
    assert not raw_redis.exists("offsider:suspects")


@pytest.mark.usefixtures("registered")
def test_a_fenced_owner_is_dead_at_the_first_check(pool, raw_redis):
    """What the one who fenced it could not finish is taken by the next sweep."""
    raw_redis.set(ALIVE, 1)
    owners.fence(pool, LISTS, how="was killed by SIGKILL")
    raw_redis.set(ALIVE, 1)
    assert look(pool) == [IDENTITY]


@pytest.mark.usefixtures("registered")
def test_a_note_that_cannot_be_read_counts_for_nothing(pool, raw_redis):
    raw_redis.hset("offsider:suspects", IDENTITY, "nonsense")
    assert look(pool) == []


@pytest.mark.usefixtures("registered")
def test_many_owners_are_checked_in_one_call(pool, raw_redis):
    identities = [f"host:{n}:aaaaaaaaaaaa" for n in range(5000)]
    raw_redis.hset("offsider:owners", mapping=dict.fromkeys(identities, "{}"))
    raw_redis.set(f"offsider:alive:{identities[7]}", 1)
    assert owners.look(pool, identities, LIFE_MS) == []
    assert raw_redis.hlen("offsider:suspects") == 4999


def test_a_check_removes_notes_of_owners_that_have_left(pool, raw_redis, registered):
    """A worker may leave while another one checks it; a process of an earlier version left such notes behind."""
    gone = "host:9:eeeeeeeeeeee"
    notes = dict.fromkeys((gone, f"{gone} empty", f"{gone} stopping", f"{IDENTITY} stopping"), "1:2:3")
    raw_redis.hset("offsider:suspects", mapping=notes)
    assert owners.look(pool, [], LIFE_MS) == []
    assert raw_redis.hkeys("offsider:suspects") == [f"{IDENTITY} stopping".encode()]


def test_an_owner_that_leaves_between_two_steps_of_a_sweep_leaves_no_note(pool, raw_redis):
    assert look(pool) == []
    assert not owners.forget(pool, LISTS, leaving=False)
    assert snapshot(raw_redis) == {}


# -------------------------------------------------------------------------------------- fence


def test_a_fence_lasts_a_day_and_records_the_number_of_jobs(pool, raw_redis):
    raw_redis.lpush(WORKING, "one", "two")
    raw_redis.lpush(f"offsider:working:{IDENTITY}:default:high", "three")
    assert owners.fence(pool, LISTS)
    assert raw_redis.get(FENCED) == b"3 3"
    assert 24 * 3600 - 5 < raw_redis.ttl(FENCED) <= 24 * 3600


def test_jobs_of_a_stopping_owner_are_not_blamed_for_its_death(pool, raw_redis):
    """A platform that is too impatient with a stop must not make pills of long jobs."""
    owners.beat(pool, LISTS, LIFE_MS)
    raw_redis.lpush(WORKING, "one")
    owners.note_stop(pool, IDENTITY)
    raw_redis.delete(ALIVE)
    assert owners.fence(pool, LISTS)
    assert raw_redis.get(FENCED) == b"1 0"


def test_a_second_fence_keeps_the_record_of_the_first(pool, raw_redis):
    owners.fence(pool, LISTS)
    raw_redis.lpush(WORKING, "late")
    raw_redis.expire(FENCED, 5)
    assert owners.fence(pool, LISTS)
    assert raw_redis.get(FENCED) == b"0 0"
    assert raw_redis.ttl(FENCED) > 24 * 3600 - 5


def test_an_owner_that_beats_again_is_not_fenced(pool, raw_redis):
    raw_redis.set(ALIVE, 1)
    assert not owners.fence(pool, LISTS)
    assert snapshot(raw_redis) == {ALIVE: b"1"}


def test_a_death_that_was_seen_outweighs_a_beat(pool, raw_redis):
    raw_redis.set(ALIVE, 1)
    assert owners.fence(pool, LISTS, how="was killed by SIGKILL")
    assert snapshot(raw_redis) == {FENCED: b"0 0"}


# ------------------------------------------------------------------------------------- forget


def test_a_clean_exit_leaves_nothing(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    assert owners.forget(pool, LISTS, leaving=True)
    assert snapshot(raw_redis) == {}


def test_the_stop_note_is_deleted_with_the_owner(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    owners.note_stop(pool, IDENTITY)
    owners.beat(pool, LISTS, LIFE_MS)
    assert raw_redis.hkeys("offsider:suspects") == [f"{IDENTITY} stopping".encode()]
    assert owners.forget(pool, LISTS, leaving=True)
    assert snapshot(raw_redis) == {}


def test_a_late_stop_note_is_ignored(pool, raw_redis):
    """Nobody would remove it."""
    owners.note_stop(pool, IDENTITY)
    assert snapshot(raw_redis) == {}


def test_an_owner_with_jobs_is_not_deleted(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    raw_redis.lpush(WORKING, "job")
    before = snapshot(raw_redis)
    assert not owners.forget(pool, LISTS, leaving=True)
    assert not owners.forget(pool, LISTS, leaving=False)
    assert snapshot(raw_redis) == before


def test_a_dead_owner_is_deleted_after_two_empty_checks_a_minute_apart(pool, raw_redis, registered):
    """A late script may fill a list after it was found empty."""
    note = f"{IDENTITY} empty"
    assert not owners.forget(pool, LISTS, leaving=False)
    assert not owners.forget(pool, LISTS, leaving=False)
    raw_redis.hset("offsider:suspects", note, (raw_redis.time()[0] - 55) * 1000)
    assert not owners.forget(pool, LISTS, leaving=False)
    raw_redis.hset("offsider:suspects", note, (raw_redis.time()[0] - 61) * 1000)
    assert owners.forget(pool, LISTS, leaving=False)
    assert snapshot(raw_redis) == {}


def test_a_list_filled_between_the_checks_restarts_the_minute(pool, raw_redis, registered):
    raw_redis.hset("offsider:suspects", f"{IDENTITY} empty", (raw_redis.time()[0] - 61) * 1000)
    raw_redis.lpush(WORKING, "late")
    assert not owners.forget(pool, LISTS, leaving=False)
    raw_redis.delete(WORKING)
    assert not owners.forget(pool, LISTS, leaving=False)
    assert raw_redis.hexists("offsider:owners", IDENTITY)


# ------------------------------------------------------------------------------------- strays


def test_the_newest_jobs_are_first_in_a_batch(pool, raw_redis):
    raw_redis.lpush(WORKING, "first", "second", "third")
    owner = Owner(IDENTITY, "default")
    assert owners.newest(pool, LISTS, 2) == [
        PrivateListEntry(owner, "low", b"third"),
        PrivateListEntry(owner, "low", b"second"),
    ]


def test_a_claimed_job_is_found_by_a_text_in_it(pool, raw_redis):
    owners.beat(pool, LISTS, LIFE_MS)
    raw_redis.lpush(WORKING, "third, of ours", "second", "first")
    assert [*owners.claimed_with(pool, "ours")] == [Claimed(IDENTITY, "low", b"third, of ours", is_alive=True)]
    raw_redis.delete(ALIVE)
    assert [*owners.claimed_with(pool, "second")] == [Claimed(IDENTITY, "low", b"second", is_alive=False)]
    raw_redis.set(pool.keys.working(IDENTITY, "default", "high"), "no list")
    assert [*owners.claimed_with(pool, "nobody")] == []


def test_a_stray_list_is_found_among_many_keys(pool, raw_redis):
    raw_redis.mset({f"cache:{number}": 1 for number in range(2_500)})
    raw_redis.lpush(pool.keys.working("dyno:1:bbbbbbbbbbbb", "default", "low"), "job")
    assert owners.adopt_strays(pool) == 1


@pytest.mark.parametrize("prefix", ["", "{offsider}:resque:gitlab:", "{offsider}:odd[*]?:"])
def test_unregistered_lists_are_adopted(make_pool, redis_url, raw_redis, prefix):
    pool = make_pool(url=redis_url, key_prefix=prefix)
    owners.beat(pool, LISTS, LIFE_MS)
    stray = "dyno:web.1:77:bbbbbbbbbbbb"
    for identity, capsule, queue in ((stray, "default", "a:b"), (stray, "slow", "low"), (IDENTITY, "default", "new")):
        raw_redis.lpush(pool.keys.working(identity, capsule, queue), "job")
    raw_redis.lpush(pool.keys.working(IDENTITY, "default", "low"), "job")  # known
    raw_redis.lpush(f"{pool.keys.prefix}offsider:working:nonsense", "job")
    raw_redis.lpush("other:offsider:working:x:1:cccccccccccc:default:low", "job")
    assert owners.adopt_strays(pool) == 3
    found = {lists.identity: lists.queues for lists in owners.registered(pool)}
    assert found == {
        stray: {"default": ("a:b",), "slow": ("low",)},
        IDENTITY: {"default": ("high", "low", "new")},
    }
    assert owners.adopt_strays(pool) == 0
