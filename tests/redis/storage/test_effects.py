"""Effects run in the step that writes the destination of a job, and only if its owner still owned it."""

from __future__ import annotations

import pytest

from offsider.storage import quarantine, scripts, working
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.effects import Effect, EffectCalls, Together, run_alone
from offsider.storage.scripts import Script
from offsider.storage.working import DeadSetLimits, Owner, Pipelined, PrivateListEntry

OWNER = Owner("host:1:a", "default")
#: Adds a number to a counter, and returns the sum.
ADD = Script("add", source="#!lua flags=allow-oom\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])\n")
NOTE = Script("note", source="#!lua flags=allow-oom\nredis.call('SET', KEYS[1], '1')\n")

COUNTER, NOTED, LIST, OTHERS = (f"{DEFAULT_PREFIX}{name}" for name in ("counter", "note", "list", "others"))


def add(number=1, key=COUNTER):
    return Effect(ADD, [key], [number])


@pytest.fixture
def claimed(pool, raw_redis):
    """Puts jobs into the private list."""

    def claimed(*raws):
        raw_redis.lpush(pool.keys.working(OWNER.identity, OWNER.capsule, "q"), *raws)
        return [PrivateListEntry(OWNER, "q", raw) for raw in raws]

    return claimed


VERBS = {
    "acknowledge": working.acknowledge,
    "postpone": lambda redis, entry: working.postpone(redis, entry, redis.keys.retry, b"later", 60),
    "bury": lambda redis, entry: working.bury(redis, entry, b"dead", DeadSetLimits()),
    "put back": lambda redis, entry: working.put_back(redis, [(entry, entry.raw)])[0],
    "put last": working.put_last,
    "put aside": lambda redis, entry: quarantine.put_from_run(redis, entry, days=1, most=9, at=1.0, how="test"),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_every_outcome_runs_its_effects_with_it(pool, raw_redis, claimed, verb):
    (entry,) = claimed(b"job")
    together = Together(pool, [add(2), Effect(NOTE, [NOTED]), add(5)])
    assert verb(together, entry)
    assert together.replies == [2, None, 7]
    assert (raw_redis.get(COUNTER), raw_redis.get(NOTED)) == (b"7", b"1")
    assert raw_redis.llen(pool.keys.working(OWNER.identity, OWNER.capsule, "q")) == 0


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_missing_job_has_no_effects(pool, raw_redis, verb):
    together = Together(pool, [add()])
    assert not verb(together, PrivateListEntry(OWNER, "q", b"gone"))
    assert together.replies == [None]
    assert raw_redis.get(COUNTER) is None


def test_effects_of_several_jobs_in_one_round_trip(pool, raw_redis, claimed):
    claimed(b"a", b"c")
    raw_redis.lpush("queue:q", b"next")
    effects = EffectCalls([[add(1)], [add(10)], [add(100), Effect(NOTE, [NOTED])]])
    result = working.ack_and_claim(pool, OWNER, ["q"], 5, [("q", b"a"), ("q", b"gone"), ("q", b"c")], effects=effects)
    assert result.replies == [1, None, 101, None]
    assert (result.gone, result.claimed, result.paused, result.refused) == ([1], [("q", b"next")], frozenset(), "")
    assert (raw_redis.get(COUNTER), raw_redis.get(NOTED)) == (b"101", b"1")


#: Appends its arguments to a list, in one call.
APPEND = Script(
    "append", source="#!lua flags=allow-oom\nreturn redis.call('RPUSH', KEYS[1], table.concat(ARGV, ' '))\n"
)


def test_effects_with_the_same_keys_and_common_arguments_run_as_one_call(pool, raw_redis, claimed):
    claimed(b"a", b"c", b"d")
    keys, others, common = [LIST], [OTHERS], ("common", 7)

    def append(number, to=keys):
        return Effect(APPEND, to, (number, "x"), common=common)

    jobs = [[add(1), append(1)], [append(2)], [append(3, others), append(4)], [add(10), append(5)]]
    effects = EffectCalls(jobs)
    finished = [("q", raw) for raw in (b"a", b"gone", b"c", b"d")]
    result = working.ack_and_claim(pool, OWNER, [], 0, finished, effects=effects)
    assert len(result.replies) == 4
    assert [*effects.by_job(result.replies)] == [[1, 1], [1], [1, 1], [11, 1]]
    assert raw_redis.lrange(LIST, 0, -1) == [b"common 7 1 x 4 x 5 x"]
    assert raw_redis.lrange(OTHERS, 0, -1) == [b"common 7 3 x"]


def test_replies_are_in_the_order_of_the_effects_of_a_job(pool, claimed):
    (entry,) = claimed(b"a")
    together = Together(pool, [Effect(APPEND, [LIST], ("x",), common=()), add(5), Effect(NOTE, [NOTED])])
    assert working.acknowledge(together, entry)
    assert together.replies == [1, 5, None]


def test_effects_with_common_arguments_of_missing_jobs_do_not_run(pool, raw_redis):
    effects = EffectCalls([[Effect(APPEND, (), (), common=())]] * 2)
    result = working.ack_and_claim(pool, OWNER, [], 0, [("q", b"a"), ("q", b"b")], effects=effects)
    assert result.replies == [None]


def test_common_arguments_are_first_in_an_effect_that_runs_alone(pool, raw_redis):
    assert run_alone(pool, [Effect(APPEND, [LIST], ("own",), common=("common",))]) == [1]
    assert raw_redis.lrange(LIST, 0, -1) == [b"common own"]


def test_an_effect_that_fails_does_not_keep_the_outcome_from_being_written(pool, raw_redis, claimed):
    claimed(b"a", b"b")
    raw_redis.lpush(LIST, 1)
    bad = Effect(Script("bad", source="#!lua\nlocal x = nil + 1\n"), [])
    effects = EffectCalls([[add(key=LIST), bad], [add()]])
    result = working.ack_and_claim(pool, OWNER, [], 0, [("q", b"a"), ("q", b"b")], effects=effects)
    wrongtype, arithmetic, counted = result.replies
    assert wrongtype.startswith(b"WRONGTYPE")
    assert b"arithmetic" in arithmetic
    assert counted == 1
    assert raw_redis.llen(pool.keys.working(OWNER.identity, OWNER.capsule, "q")) == 0


def test_a_queue_that_refuses_its_job_has_no_effects(pool, raw_redis, claimed):
    (entry,) = claimed(b"job")
    raw_redis.set("queue:q", "not a list")
    with pytest.raises(working.RedisRefused):
        working.put_back(Together(pool, [add()]), [(entry, b"job")])
    assert raw_redis.get(COUNTER) is None


def test_without_effects_not_one_byte_more_is_sent(pool, claimed):
    finished = [("q", b"a"), ("p", b"b")]
    script, keys, arguments = working.ack_and_claim_call(pool.keys, OWNER, ["q"], 5, finished)
    assert script is working.ACK_AND_CLAIM
    assert len(keys) == 3 + 4
    assert arguments == [5, 1, "q", 1, b"a", 2, b"b"]
    sent = []

    class Recording:
        keys = pool.keys

        def run(self, *call):
            sent.append(call)
            return pool.run(*call)

    (entry,) = claimed(b"job")
    assert working.postpone(Together(Recording(), ()), entry, pool.keys.retry, b"later", 60)
    assert [call[0] for call in sent] == [working.SETTLE]


def test_a_text_is_composed_once_and_sent_once_on_each_connection(pool, raw_redis, claimed):
    ahead = Pipelined(pool)
    raw_redis.script_flush()
    for round_ in range(3):
        claimed(b"a", b"b")
        before = raw_redis.info("commandstats").get("cmdstat_eval", {"calls": 0})["calls"]
        effects = EffectCalls([[add()], [add()]])
        ahead.ask(OWNER, [], 0, [("q", b"a"), ("q", b"b")], effects)
        assert ahead.answer([], effects).replies == [2 * round_ + 1, 2 * round_ + 2]
        after = raw_redis.info("commandstats").get("cmdstat_eval", {"calls": 0})["calls"]
        assert after - before == (0 if round_ else 1)
    ahead.close()
    effects = EffectCalls([[add()]])
    ahead.ask(OWNER, [], 0, [("q", b"a")], effects)
    assert ahead.answer([], effects).replies == [None]
    ahead.close()


def test_effects_run_when_the_server_is_full(make_server, make_pool):
    full = make_pool(url=make_server().url)
    full.call("LPUSH", full.keys.working(OWNER.identity, OWNER.capsule, "q"), b"job")
    full.call("CONFIG", "SET", "maxmemory", 1)
    together = Together(full, [add()])
    assert working.acknowledge(together, PrivateListEntry(OWNER, "q", b"job"))
    assert together.replies == [1]


def test_effects_run_on_a_server_without_flags(pool, claimed):
    try:
        scripts.drop_flags()
        (entry,) = claimed(b"job")
        together = Together(pool, [add()])
        assert working.acknowledge(together, entry)
        assert together.replies == [1]
    finally:
        scripts._without_flags = False
        for script in list(scripts._every):
            script._use(script.source)


def test_effects_of_an_outcome_that_no_script_writes(pool):
    assert run_alone(pool, [add(3), Effect(NOTE, [NOTED]), add(4)]) == [3, None, 7]


def test_jobs_in_a_row_share_an_effect_that_takes_their_jids(pool, raw_redis, claimed):
    claimed(b"a", b"c", b"d")
    shared, other = Effect(APPEND, [LIST], None, common=("of",)), Effect(APPEND, [OTHERS], (), common=())
    effects = EffectCalls([[shared], [shared], [other], [shared]], ["jid-a", "jid-b", "jid-c", "jid-d"])
    finished = [("q", raw) for raw in (b"a", b"gone", b"c", b"d")]
    result = working.ack_and_claim(pool, OWNER, [], 0, finished, effects=effects)
    assert [*effects.by_job(result.replies)] == [[1], [1], [1], [1]]
    assert raw_redis.lrange(LIST, 0, -1) == [b"of jid-a jid-d"]


def test_each_job_in_a_row_has_its_own_call_of_an_effect_without_common_arguments(pool, raw_redis, claimed):
    claimed(b"a", b"b")
    once = add(2)
    effects = EffectCalls([[once], [once]])
    result = working.ack_and_claim(pool, OWNER, [], 0, [("q", b"a"), ("q", b"b")], effects=effects)
    assert [*effects.by_job(result.replies)] == [[2], [4]]
