"""Running a job here and now: everything but Redis."""

import asyncio
import sys
import threading
from contextvars import ContextVar

import pytest

from offsider import Call, ConfigurationError, Discard, InvalidJob, Skip, current_job, job
from tests.middleware import returning


@job(name="inline")
def describe(value, *, flag=False):
    return value, flag, current_job().name, current_job().queue


def test_the_result_is_returned_and_the_job_has_its_context(config):
    assert describe.using(queue="low").run_inline([1], flag=True) == ([1], True, "inline", "low")


def test_the_job_gets_the_same_arguments_as_in_a_worker(config):
    config.client.strict_args = "off"
    assert describe.run_inline((1, {2: 3}))[0] == [1, {"2": 3}]


def test_both_kinds_of_middleware_run(config):
    seen = []

    def client_side(push):
        seen.append("client")
        push.payload["args"] = ["changed"]
        yield

    def server_side(context):
        seen.append(f"server {context.name}")
        yield

    config.client_middleware.add(client_side)
    config.server_middleware.add(server_side)
    assert describe.run_inline(1)[0] == "changed"
    assert seen == ["client", "server inline"]


def test_a_job_stopped_by_middleware_returns_none(config):
    config.client_middleware.add(returning())
    assert describe.run_inline(1) is None


@pytest.mark.parametrize("signal", [Skip("nothing to do"), Discard("no")])
def test_a_discarded_job_returns_none(config, signal):
    @job
    def gives_up():
        raise signal

    assert gives_up.run_inline() is None


@job(name="asynchronous")
async def double(number):
    await asyncio.sleep(0)
    return number * 2, current_job().name


def test_an_async_job_is_run_to_its_end(config):
    assert double.run_inline(4) == (8, "asynchronous")


def test_an_async_job_runs_even_inside_a_running_loop(config):
    async def inside():
        return double.run_inline(4)

    assert asyncio.run(inside()) == (8, "asynchronous")


@pytest.mark.parametrize("loop", ["of the job", "of the caller"])
def test_middleware_sees_what_an_async_job_has_set_as_in_a_worker(config, loop, monkeypatch):
    monkeypatch.delitem(sys.modules, "asgiref.sync", raising=False)
    topic, seen = ContextVar("topic", default="none"), []

    def around(_):
        yield
        seen.append(topic.get())

    config.server_middleware.add(around)

    @job
    async def sets():
        topic.set("by the job")

    async def inside():
        sets.run_inline()

    sets.run_inline() if loop == "of the job" else asyncio.run(inside())
    assert seen == ["by the job"]


@pytest.fixture
def lived(config):
    """What middleware saw of an async job; like most middleware, it does not hand the result on."""
    seen = []

    def around(context):
        seen.append("begins")
        try:
            yield
        finally:
            seen.append("ends")

    config.server_middleware.add(around)
    return seen


def test_middleware_ends_after_an_async_job(config, lived):
    @job
    async def slow():
        await asyncio.sleep(0)
        lived.append("job")

    slow.run_inline()
    assert lived == ["begins", "job", "ends"]


class Bound:
    thread_bound = True

    def __call__(self, job):
        yield


def test_middleware_that_is_bound_to_its_thread_refuses_async_jobs_as_in_a_worker(config):
    config.server_middleware.add(Bound())

    @job(chunk=2)
    async def index(calls: list[Call[int]]) -> None: ...

    for each in (double, index):
        with pytest.raises(ConfigurationError, match="the server middleware Bound is bound to its thread"):
            each.run_inline(4)


def test_middleware_sees_the_error_of_an_async_job(config):
    caught = []

    def around(context):
        try:
            yield
        except RuntimeError as error:
            caught.append(str(error))

    config.server_middleware.add(around)

    @job
    async def fails():
        await asyncio.sleep(0)
        raise RuntimeError("no luck")

    fails.run_inline()
    assert caught == ["no luck"]


def test_a_decorator_that_hides_the_coroutine_does_not_keep_it_from_running(config):
    @job
    def hidden():
        return double.declared.perform(None, (4,), {})

    assert hidden.run_inline()[0] == 8


@pytest.mark.parametrize("loaded", [True, False])
def test_sync_code_of_an_async_job_runs_in_the_calling_thread_if_asgiref_is_loaded(monkeypatch, loaded):
    from asgiref.sync import sync_to_async

    @job
    async def thread():
        return await sync_to_async(threading.get_ident)()

    if not loaded:
        monkeypatch.delitem(sys.modules, "asgiref.sync")
    assert (thread.run_inline() == threading.get_ident()) is loaded


class Lazy:
    def __await__(self):
        yield


async def steps():
    yield 1


@pytest.mark.parametrize("make", [Lazy, steps, lambda: (each for each in "ab")])
def test_a_result_that_shows_that_the_body_did_not_run_is_an_error(make):
    @job
    def plain():
        return make()

    @job
    async def asynchronous():
        return make()

    for each in (plain, asynchronous):
        with pytest.raises(InvalidJob, match=r"returned an object of the class \w+, whose body has not run: .*\.py:"):
            each.run_inline()


def test_a_future_is_a_result(config):
    @job
    async def starts():
        return asyncio.ensure_future(asyncio.sleep(0))

    assert isinstance(starts.run_inline(), asyncio.Future)
