"""What the replies to a batch mean: the reply of LPUSH alone decides, and only a refusal is repeated."""

import pytest

from offsider.client.alike import PreparedAlike
from offsider.client.delivery import Delivery
from offsider.config.hooks import Prepared
from offsider.core.errors import NotReplicated, QueueFull, RedisRefused
from offsider.storage.keys import Keys
from offsider.storage.scripts import Script

KEYS = Keys("")


def job(queue: str = "default", *, jid: str = "j1", at: float | None = None) -> Prepared:
    return Prepared({"class": "X", "args": [], "jid": jid}, jid.encode(), queue, at)


def refused(code: str) -> RedisRefused:
    return RedisRefused(f"{code} no", code=code)


def test_jobs_are_grouped_by_queue_and_scheduled_jobs_separately():
    jobs = [job("a", jid="1"), job("b", jid="2"), job("a", jid="3"), job("a", jid="4", at=60.5)]
    assert Delivery(KEYS, jobs).commands == [
        ("SADD", "queues", "a"),
        ("LPUSH", "queue:a", b"1", b"3"),
        ("SADD", "queues", "b"),
        ("LPUSH", "queue:b", b"2"),
        ("ZADD", "schedule", 60.5, b"4"),
    ]


def test_jobs_of_a_bulk_push_are_one_command():
    jobs = PreparedAlike({"class": "X", "queue": "low"}, [b"1", b"2"], [[1], [2]], ["a", "b"], server="")
    assert Delivery(KEYS, jobs).commands == [("SADD", "queues", "low"), ("LPUSH", "queue:low", b"1", b"2")]


@pytest.mark.parametrize("code", ["READONLY", "NOREPLICAS", "UNBLOCKED"])
def test_a_refusal_by_role_is_repeated_once(code):
    delivery = Delivery(KEYS, [job()])
    first = delivery.commands
    delivery.take([refused(code), refused(code)])
    assert delivery.commands == first
    delivery.take([refused(code), refused(code)])
    assert (delivery.error.code, delivery.commands) == (code, [])


def test_only_refused_jobs_are_repeated():
    delivery = Delivery(KEYS, [job("a", jid="1"), job("b", jid="2")])
    delivery.take([1, 1, refused("READONLY"), refused("READONLY")])
    assert delivery.commands == [("SADD", "queues", "b"), ("LPUSH", "queue:b", b"2")]
    delivery.take([1, 1])
    assert delivery.commands == []


@pytest.mark.parametrize("error", [QueueFull("OOM full", code="OOM"), refused("WRONGTYPE"), refused("NOPERM")])
def test_other_refusals_are_final(error):
    delivery = Delivery(KEYS, [job()])
    delivery.take([1, error])
    assert (delivery.error, delivery.commands) == (error, [])


def test_a_stored_job_counts_even_if_its_queue_s_name_was_refused(caplog):
    delivery = Delivery(KEYS, [job()])
    delivery.take([refused("WRONGTYPE"), 1])
    assert delivery.commands == []
    assert "the job is stored" in caplog.text


def test_replicas_are_waited_for_after_the_job_is_stored():
    delivery = Delivery(KEYS, [job()], wait_replicas=2)
    assert delivery.commands[-1] == ("WAIT", 2, 1000)
    delivery.take([1, 1, 2])
    assert delivery.commands == []


@pytest.mark.parametrize("reply, reached", [(1, 1), (0, 0), (refused("ERR"), 0)])
def test_too_few_replicas_raise_with_the_jid(reply, reached):
    delivery = Delivery(KEYS, [job()], wait_replicas=2)
    delivery.take([1, 1, reply])
    assert isinstance(delivery.error, NotReplicated)
    assert f"j1 is stored, but only {reached} of 2 replicas" in str(delivery.error)
    assert (delivery.error.jid, delivery.error.wanted, delivery.error.reached) == ("j1", 2, reached)


class Guard:
    """Stores by a script whose reply is the places of those it refuses."""

    script = Script("oldest")

    def concerns(self, push):
        return True

    def take(self, push, at):
        return True

    def call(self, keys, jobs):
        return self.script, [keys.queues], [job.raw for job in jobs]

    def refused(self, jobs, reply):
        return reply


def guarded(jid: str, at: float | None = None) -> Prepared:
    return Prepared({"class": "X", "args": [], "jid": jid}, jid.encode(), "default", at, guarded=True)


def test_guarded_jobs_are_stored_by_the_guards_script():
    delivery = Delivery(KEYS, [guarded("1"), guarded("2"), job(jid="3")], guard=Guard())
    by_hash, *plain = delivery.commands
    assert by_hash == ("EVALSHA", Guard.script.sha, 1, "queues", b"1", b"2")
    assert plain == [("SADD", "queues", "default"), ("LPUSH", "queue:default", b"3")]
    delivery.take([[1], 1, 1])
    assert delivery.stopped == {"2"}
    assert delivery.commands == []


def test_an_unknown_script_alone_is_sent_again_as_text():
    delivery = Delivery(KEYS, [guarded("1"), job(jid="2")], wait_replicas=1, guard=Guard())
    delivery.take([refused("NOSCRIPT"), 1, 1, 1])
    assert delivery.commands == [("EVAL", Guard.script.text, 1, "queues", b"1"), ("WAIT", 1, 1000)]
    delivery.take([[], 1])
    assert delivery.commands == []
    assert not delivery.stopped


def test_many_guarded_jobs_are_split_so_that_no_script_blocks_the_server():
    jobs = [guarded(str(number)) for number in range(250)]
    delivery = Delivery(KEYS, jobs, guard=Guard())
    assert [len(command) - 4 for command in delivery.commands] == [100, 100, 50]
    delivery.take([[0], [], [49]])
    assert delivery.stopped == {"0", "249"}
