"""Workflows: steps run after others, with their results, and each is pushed once."""

import asyncio
import json
from datetime import date
from types import SimpleNamespace

import pytest

from offsider import Client, Config, Discard, Skip, job
from offsider.core.errors import BatchSpansServers, InvalidArguments, InvalidOptions, JobFailed
from offsider.ext.batches import RESULT, Batch, Workflow, chain, chord, group, store
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.results import Results
from offsider.ext.unique import Unique
from offsider.inspector import DeadSet, Queue
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for

does = {}
runs = []


@pytest.fixture(autouse=True)
def _extensions(config):
    for extension in (Results(keep_result=60), Unique(), ConcurrencyLimits()):
        config.use(extension)
    does.clear()
    runs.clear()


def run(name, *args):
    runs.append(name)
    return does[name](*args) if name in does else [name, *args]


@pytest.fixture
def jobs(declared):
    @job(name="load")
    def load(number: int) -> object:
        return run("load", number)

    @job(name="clean", queue="low")
    def clean(before: object, how: str = "") -> object:
        return run("clean", before, how)

    @job(name="mail")
    async def mail(before: object, *, to: str = "") -> object:
        return run("mail", before, to)

    @job(name="plain")
    def plain() -> object:
        return run("plain")

    @job(name="dated", codec="annotations")
    def dated(day: date, before: date) -> str:
        return run("dated", day, before)

    return SimpleNamespace(load=load, clean=clean, mail=mail, plain=plain, dated=dated)


def test_a_step_gets_the_previous_result_at_the_placeholder(config, jobs):
    last = chain(
        jobs.load.call(1), jobs.clean.call(RESULT, "ä"), jobs.plain.call(), jobs.mail.call([], to=RESULT), config=config
    ).enqueue()
    assert last.status() == "queued"
    with RunningWorker(config):
        assert last.result(timeout=10) == ["mail", [], ["plain"]]
    assert runs == ["load", "clean", "plain", "mail"]


def test_results_of_a_group_are_in_order_and_a_group_gets_the_previous_result(config, jobs):
    does["load"] = lambda number: {"number": number, "text": 'a"ä'}
    pages = group(jobs.load.call(number) for number in range(5))
    last = chain(pages, jobs.clean.call(RESULT), group(jobs.mail.call(RESULT)), jobs.clean.call(RESULT), config=config)
    with RunningWorker(config):
        found = last.enqueue().result(timeout=10)
        total = chord(group(jobs.load.call(7)), jobs.clean.call(RESULT), config=config).enqueue().result(timeout=10)
    numbers = [{"number": number, "text": 'a"ä'} for number in range(5)]
    assert found == ["clean", [["mail", ["clean", numbers, ""], ""]], ""]
    assert total == ["clean", [{"number": 7, "text": 'a"ä'}], ""]


def test_a_workflow_runs_each_step_after_those_it_names(config, jobs):
    flow = Workflow(description="Nightly", config=config)
    flow.step("end", jobs.mail.call(RESULT), after=["merge"])
    flow.step("merge", jobs.clean.call(RESULT), after=["one", "two"])
    flow.step("one", jobs.load.call(1)).step("two", jobs.load.call(2)).step("aside", jobs.plain.call(), after=["two"])
    ids = flow.enqueue()
    assert [*sorted(ids)] == ["aside", "end", "merge", "one", "two"]
    status = flow.batch.status()
    assert (status.description, status.total, status.pending) == ("Nightly", 5, 5)
    with RunningWorker(config):
        assert ids["end"].result(timeout=10) == ["mail", ["clean", [["load", 1], ["load", 2]], ""], ""]
        wait_for(lambda: flow.batch.status().success_at)
    assert runs.index("plain") > runs.index("load")
    assert flow.batch.status().pending == 0


def test_it_can_be_pushed_again_from_jobs_and_from_an_event_loop(config, jobs):
    does["plain"] = lambda: chain(jobs.load.call(1), jobs.clean.call(RESULT), config=config).enqueue()
    both = group(jobs.load.call(1), jobs.load.call(2), config=config)
    flow = Workflow(config=config).step("one", jobs.load.call(5))
    with RunningWorker(config):
        for ids in (both.enqueue(), asyncio.run(both.aenqueue())):
            assert [jid.result(timeout=10) for jid in ids] == [["load", 1], ["load", 2]]
        assert asyncio.run(flow.aenqueue())["one"].result(timeout=10) == ["load", 5]
        inner = asyncio.run(chain(jobs.plain.call(), config=config).aenqueue()).result(timeout=10)
        wait_for(lambda: runs.count("clean") == 1)
    assert isinstance(inner, str)


def test_steps_after_a_debounced_step_that_is_replaced_count_as_dead(config, jobs):
    flow = chain(jobs.load.using(debounce=60).call(1), jobs.clean.call(RESULT), config=config)
    last = flow.enqueue()
    Client(config).push({"class": jobs.load, "args": [2], "debounce": 60})
    status = flow.batch.status()
    assert (status.total, status.dead_jids) == (1, [last])


def test_waiting_steps_outlive_a_scheduled_first_step(config, jobs, raw_redis):
    flow = chain(jobs.load.using(debounce=30 * 86_400).call(1), jobs.clean.call(RESULT), config=config)
    flow.enqueue()
    assert raw_redis.ttl(f"b-{flow.batch.bid}-steps") > 130 * 86_400


def test_a_codec_reads_the_result_by_the_annotation(config, jobs):
    does["dated"] = lambda *days: max(days).isoformat()
    does["load"] = lambda _: "2030-02-01"
    with RunningWorker(config):
        last = chain(jobs.load.call(1), jobs.dated.call(date(2030, 1, 1), RESULT), config=config).enqueue()
        assert last.result(timeout=10) == "2030-02-01"


@pytest.mark.parametrize("error", [Skip("no need"), Discard("no use")])
def test_after_a_step_without_a_result_nothing_follows(config, jobs, error):
    def fail(_):
        raise error

    does["load"] = fail
    flow = chain(jobs.load.call(1), jobs.clean.call(RESULT), jobs.mail.call(RESULT), config=config)
    last = flow.enqueue()
    with RunningWorker(config), pytest.raises(JobFailed):
        last.result(timeout=10)
    assert last.status() == "dead"
    assert runs == ["load"]
    status = flow.batch.status()
    assert [why for _, why in flow.batch.died()][-1].endswith("a step before it has no result")
    assert status.complete


def test_a_process_that_dies_after_the_removal_of_a_step_has_counted_those_after_it(config, jobs, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    flow = chain(jobs.load.call(1), jobs.clean.call(RESULT), jobs.mail.call(RESULT), config=config)
    last = flow.enqueue()
    monkeypatch.setattr(config.events, "emit", killed)
    with pytest.raises(KeyboardInterrupt):
        Queue("default", config).clear()
    assert len(flow.batch.status().dead_jids) == 3
    assert last.status() == "dead"


def test_retrying_a_dead_step_resumes_the_workflow(config, jobs, redis):
    def fail(_):
        raise ValueError("no")

    does["load"] = fail
    load = jobs.load.using(retry=0)
    flow = chain(load.call(1), jobs.clean.call(RESULT), jobs.mail.call(RESULT), config=config).on("success", jobs.clean)
    last = flow.enqueue()
    with RunningWorker(config):
        with pytest.raises(JobFailed, match="dead"):
            last.result(timeout=10)
        del does["load"]
        (dead,) = DeadSet(config)
        assert dead.retry()
        wait_for(lambda: last.status() == "succeeded")
        assert last.result(timeout=10) == ["mail", ["clean", ["load", 1], ""], ""]
        wait_for(lambda: flow.batch.status().success_at)
    steps = store.batch_key(redis.keys, flow.batch.bid, store.STEPS)
    assert redis.call("HGET", steps, "waiting") == b"0"
    assert 0 < redis.call("TTL", steps) <= 86_400


def test_a_success_that_is_written_twice_pushes_nothing_again(config, jobs, redis):
    flow = chain(jobs.load.call(1), jobs.clean.call(RESULT), config=config)
    last = flow.enqueue()
    keys = redis.keys
    names = [store.batch_key(keys, flow.batch.bid, store.STEPS), keys.queues, keys.queue("low")]
    (first,) = (json.loads(raw)["jid"] for raw in redis.call("LRANGE", keys.queue("default"), 0, -1))
    for expected in (1, 0):
        assert redis.run(store.FOLLOW, names, [first, "[1]", 60, last, "low"]) == expected
    (raw,) = redis.call("LRANGE", keys.queue("low"), 0, -1)
    payload = json.loads(raw)
    assert (payload["jid"], payload["args"]) == (last, [[1]])
    assert payload["enqueued_at"] >= payload["created_at"]
    assert redis.run(store.FOLLOW, [keys.queue("none"), *names[1:]], [first, "[1]", 60, last, "low"]) == 0


def test_a_result_that_is_not_json_ends_the_workflow_and_is_reported(config, jobs):
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(str(error)))
    does["load"] = lambda _: {1: object}
    last = chain(jobs.load.call(1), jobs.clean.call(RESULT), config=config).enqueue()
    other = chain(jobs.load.call(1), jobs.plain.call(), config=config).enqueue()
    with RunningWorker(config):
        with pytest.raises(JobFailed):
            last.result(timeout=10)
        assert other.result(timeout=10) == ["plain"], "it takes no result"
    assert any("its result cannot be an argument of the next step" in error for error in errors)


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [98, 99])
@pytest.mark.parametrize("in_a_list", [False, True])
def test_a_result_is_nested_as_deep_as_an_argument_or_ends_the_workflow(config, jobs, levels, in_a_list):
    levels -= in_a_list  # the list of results is a level too
    fits = levels + in_a_list == 98
    does["load"] = lambda _: nested(levels)
    first = group([jobs.load.call(1), jobs.load.call(2)]) if in_a_list else jobs.load.call(1)
    flow = chain(first, jobs.clean.call(RESULT), config=config)
    does["clean"] = lambda *_: "taken"
    last = flow.enqueue()
    with RunningWorker(config):
        if fits:
            assert last.result(timeout=10) == "taken"
        else:
            with pytest.raises(JobFailed, match=r"its result cannot be an argument of the next step: .*nested"):
                last.result(timeout=10)
    assert last.status() == ("succeeded" if fits else "dead")


def test_a_deleted_workflow_leaves_its_running_step_alone(config, jobs):
    flow = chain(jobs.load.call(1), jobs.clean.call(RESULT), config=config)
    last = flow.enqueue()
    flow.batch.delete()
    with RunningWorker(config):
        wait_for(lambda: runs == ["load"])
    assert last.status() == "queued"


def nightly(jobs):
    return group([jobs.plain.call()], description="Nightly")


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda jobs: chain(), "has no steps"),
        (lambda jobs: chain(jobs.load), r"step '1' of a workflow must be some_job.call"),
        (lambda jobs: chain(jobs.clean.call(RESULT)), "waits for no other step"),
        (lambda jobs: group(), "at least one job"),
        (lambda jobs: chord(nightly(jobs), jobs.clean.call(RESULT)), "a group in a chain or chord has no batch"),
        (lambda jobs: chain(group(jobs.plain.call()).on("complete", "plain")), "set callbacks, description and config"),
        (lambda jobs: chain(group(jobs.plain.call(), config=Config())), "set callbacks, description and config"),
        (lambda jobs: Workflow().step("a", jobs.plain.call()).step("a", jobs.plain.call()), "two steps 'a'"),
        (lambda jobs: Workflow().step("a", jobs.plain.call(), after="b"), "after must be a list of names"),
        (
            lambda jobs: Workflow().step("load", jobs.plain.call()).step("b", jobs.plain.call(), after=["laod"]),
            "waits for 'laod', which is no step of the workflow.*load",
        ),
        (
            lambda jobs: Workflow().step("a", jobs.plain.call(), after=["b"]).step("b", jobs.plain.call(), after=["a"]),
            "wait for each other: (a -> b -> a|b -> a -> b)",
        ),
        (
            lambda jobs: chain(jobs.load.call(1), jobs.clean.using(unique_for=60).call(RESULT)),
            "step '2' waits for other steps, so it cannot be unique",
        ),
    ],
)
def test_an_invalid_workflow_is_refused_before_anything_is_stored(config, jobs, redis, make, why):
    with pytest.raises(InvalidOptions, match=why):  # noqa: PT012 - some are refused at once, some when they are pushed
        flow = make(jobs)
        flow._config = config
        flow.enqueue()
    assert redis.call("KEYS", "*queue:*") == []


def test_the_mark_is_refused_outside_of_workflows(config, jobs):
    with pytest.raises(InvalidArguments, match="StepResult"):
        jobs.clean.via(Client(config)).enqueue(RESULT)
    with pytest.raises(InvalidArguments, match="StepResult"):
        chain(jobs.load.call(1), jobs.clean.call([RESULT]), config=config).enqueue()


def test_a_step_that_client_middleware_stops_is_refused(config, jobs):
    config.client_middleware.add(lambda push: None if push.payload["class"] == "clean" else (yield))
    with pytest.raises(InvalidOptions, match="client middleware canceled the push of step '2'"):
        chain(jobs.load.call(1), jobs.clean.call(RESULT), config=config).enqueue()


def test_a_workflow_inside_a_batch_is_its_child(config, jobs):
    with Batch(config=config) as batch:
        flow = chain(jobs.load.call(1), jobs.clean.call(RESULT), config=config)
        flow.enqueue()
    assert flow.batch.parent().bid == batch.bid


def test_a_step_for_another_server_is_refused(config, jobs, other_url):
    config.add_server("other", url=other_url)
    with pytest.raises(BatchSpansServers):
        chain(jobs.load.call(1), jobs.plain.using(server="other").call(), config=config).enqueue()
