"""One run of a job, from its bytes to its outcome: the order of the layers, and the meaning of each ending."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import cycle
from types import SimpleNamespace

import pytest

from offsider import (
    Discard,
    Job,
    NoCapableWorker,
    Reschedule,
    Skip,
    TooManyReschedules,
    UnknownJob,
    current_job,
    job,
    sleep_until,
)
from offsider.core import wording
from offsider.core.compression import compress
from offsider.core.errors import InvalidArguments, NoCurrentJob, RunInterrupted, Shutdown, SoftTimeout
from offsider.core.outcome import Discarded, Failed, Interrupted, Malformed, NotStarted, Rescheduled, Skipped, Succeeded
from offsider.core.payload import encode
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.control_admission import Admission
from offsider.worker.run.executor import SHORT_RUNS, SHORT_SECONDS, Executor
from offsider.worker.run.stranded import StrandedCheck
from offsider.worker.run.time_limits import TimeLimits
from offsider.worker.unit_of_work import UnitOfWork
from tests.middleware import raising, returning
from tests.unit.worker.executors import make_executor, run_job
from tests.waiting import wait_for

JOB = encode({"class": "J", "args": []})


@pytest.fixture
def run(config):
    """Runs a payload to its end, in the capsule ``default``."""
    runner = AsyncRunner("loop-of-the-test")

    def run(raw: bytes | None = None, *, stopping: bool = False, **fields):
        raw = encode({"class": "J", "args": [], "queue": "low", "jid": "a" * 24, **fields}) if raw is None else raw
        executor = make_executor(config, runner, stopping=lambda: stopping)
        return run_job(executor, UnitOfWork("taken_from", raw))

    yield run
    runner.stop()


def test_the_order_around_a_job_is_sidekiqs(config, run, caplog):
    caplog.set_level(logging.INFO, logger="offsider")
    steps: list[str] = []
    # What is logged joins the other steps.
    tap = logging.Handler()
    tap.emit = lambda record: steps.append(f"log {record.getMessage()}")  # type: ignore[method-assign]
    logging.getLogger("offsider").addHandler(tap)

    def reloader(context):
        steps.append("reloader in")
        yield
        steps.append("reloader out")

    def middleware(context):
        steps.append("middleware in")
        assert context.declared.name == "J"  # found before, so that middleware knows the job
        yield
        steps.append("middleware out")

    class J(Job, name="J"):
        def __init__(self) -> None:
            steps.append("instance")

        def perform(self) -> None:
            steps.append(f"perform {self.jid}")

    config.reloader = reloader
    config.server_middleware.add(middleware)
    try:
        assert isinstance(run().outcome, Succeeded)
    finally:
        logging.getLogger("offsider").removeHandler(tap)
    assert steps == [
        "log start",
        "reloader in",
        "middleware in",
        "instance",
        f"perform {'a' * 24}",
        "middleware out",
        "reloader out",
        "log done",
    ]


@pytest.mark.parametrize(
    "level, shown", [("warning", []), ("debug", ["start", "chatter", "done"]), (None, ["start", "done"])]
)
def test_the_log_level_of_a_payload_applies_only_to_its_run(config, run, caplog, level, shown):
    caplog.set_level(logging.INFO, logger="offsider")
    caplog.handler.setLevel(0)

    @job(name="J")
    def chat() -> None:
        logging.getLogger("offsider").debug("chatter")

    run(log_level=level)
    assert [line.getMessage() for line in caplog.records] == shown
    logging.getLogger("offsider").debug("after")
    logging.getLogger("offsider").info("after, too")
    assert [line.getMessage() for line in caplog.records] == [*shown, "after, too"]


def test_an_unknown_class_fails_before_the_reloader_and_middleware(config, run):
    walked = []
    config.server_middleware.add(lambda context: walked.append(1) or (yield))
    outcome = run(**{"class": "Nobody"}).outcome
    assert isinstance(outcome, Failed)
    assert type(outcome.error).__name__ == "UnknownJob"
    assert "Nobody" in str(outcome.error)
    assert walked == []


class Judge(StrandedCheck):
    """Replaces the component that decides about jobs that cannot run here."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, object]] = []

    def judge(self, job, declared):
        self.asked.append((job.name, declared))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_job_that_may_be_beyond_this_worker_is_judged_before_anything_of_it_begins(config):
    begun = []

    @job(name="J")
    def one(number: int = 0) -> None:
        begun.append(number)

    config.server_middleware.add(lambda context: begun.append("middleware") or (yield))
    stranded = NotStarted("schedule", 5.0, "not declared", "stranded", b"{}")
    judge = Judge(stranded, None, None, Failed(NoCapableWorker("for 30 days")), LookupError("broken"))
    rules = SimpleNamespace(known={"J": None}, rule_of=lambda name: None)
    executor = make_executor(config, admissions=(Admission(config, None, rules, None, judge),))

    def outcome(**fields):
        return run_job(executor, UnitOfWork("low", encode({"class": "J", "args": [], "jid": "a", **fields}))).outcome

    assert outcome() == outcome(signature=one.declared.signature.digest) == Succeeded()
    assert judge.asked == []
    begun.clear()
    assert outcome(**{"class": "New"}) is stranded
    assert begun == []
    assert outcome(signature="5ca1ab1e") == Succeeded()  # it was not judged, so it runs
    unknown = outcome(**{"class": "New"})
    given_up, broken = outcome(signature="5ca1ab1e"), outcome(signature="5ca1ab1e")
    assert [type(ended.error) for ended in (unknown, given_up, broken)] == [UnknownJob, NoCapableWorker, LookupError]
    assert judge.asked == [("New", None), ("J", one.declared), ("New", None), *[("J", one.declared)] * 2]


def test_an_error_of_a_reloader_or_middleware_fails_the_job(config, run):
    @job(name="J")
    def fine() -> None: ...

    config.server_middleware.add(raising(LookupError("in middleware")))
    assert repr(run().outcome.error) == "LookupError('in middleware')"

    config.reloader = raising(OSError("no connection"))
    assert repr(run().outcome.error) == "OSError('no connection')"


def test_middleware_that_does_not_call_on_ends_the_job_well(config, run):
    ran = []

    @job(name="J")
    def never() -> None:
        ran.append(1)

    config.server_middleware.add(returning())
    assert isinstance(run().outcome, Succeeded)
    assert ran == []


def caused_by_a_stop() -> None:
    try:
        raise Shutdown  # noqa: TRY301 - the error has to be the cause
    except Shutdown as error:
        raise ValueError("closing the file failed") from error


def while_stopping() -> None:
    try:
        raise Shutdown
    finally:
        {}["missing"]


def waiting() -> None:
    try:
        sleep_until(time.time() + 60)
    except Exception:  # as jobs do around a call of another service
        {}["missing"]


def cleaning_up_before_a_wait() -> None:
    try:
        sleep_until(time.time() + 60)
    finally:
        {}["missing"]


def in_a_group(perform):
    async def task() -> None:
        perform()

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(task())

    return lambda: asyncio.run(both())


def raises(error: BaseException):
    def raiser() -> None:
        raise error

    return raiser


@pytest.mark.parametrize(
    "perform, outcome",
    [
        (lambda: None, Succeeded),
        (lambda: "an answer", Succeeded),
        (raises(ValueError("boom")), Failed),
        (raises(SystemExit(3)), Failed),
        (raises(KeyboardInterrupt()), Failed),
        (raises(Shutdown()), Interrupted),
        (caused_by_a_stop, Interrupted),
        (while_stopping, Interrupted),
        (raises(Reschedule(12.5)), Rescheduled),
        (waiting, Rescheduled),
        (cleaning_up_before_a_wait, Rescheduled),
        (in_a_group(raises(RunInterrupted())), Interrupted),
        (in_a_group(waiting), Rescheduled),
        (raises(Discard("too old")), Discarded),
        (raises(Skip("nothing to do")), Skipped),
    ],
)
def test_every_end_of_a_job_is_an_outcome(run, perform, outcome):
    job(name="J")(perform)
    ended = run()
    assert type(ended.outcome) is outcome
    assert ended.job.jid == "a" * 24
    assert 0 < ended.duration_seconds < 60
    assert 0 < ended.cpu_seconds <= ended.duration_seconds + 0.01


@pytest.fixture
def executor(config):
    """One thread's, for runs one after the other."""
    runner = AsyncRunner("loop-of-the-test")
    yield make_executor(config, runner)
    runner.stop()


def measured(executor: Executor, name: str, runs: int) -> list[bool]:
    """Whether the CPU time of each of these runs was measured."""
    raw = encode({"class": name, "args": [], "queue": "low", "jid": "a" * 24})
    return [run_job(executor, UnitOfWork("low", raw)).cpu_seconds is not None for _ in range(runs)]


def test_cpu_time_is_sampled_for_short_runs_and_measured_for_long_ones(executor):
    job(name="Short")(lambda: None)
    job(name="Long")(lambda: time.sleep(2 * SHORT_SECONDS))
    assert True in measured(executor, "Short", 3)
    assert measured(executor, "Long", 4)[1:] == [True] * 3
    assert measured(executor, "Short", SHORT_RUNS).count(True) < SHORT_RUNS


def broken_afterwards(job):
    yield
    raise ValueError("boom")


@pytest.mark.parametrize(
    "admission, outcome, lines",
    [
        (lambda job: (yield), Succeeded, ["start", "ran", "done"]),
        (returning(NotStarted("elsewhere", reason="elsewhere", name="moved")), NotStarted, ["moved"]),
        (returning(Rescheduled(5)), Rescheduled, ["done"]),
        (raising(ValueError("boom")), Failed, ["fail"]),
        (raising(Shutdown()), Interrupted, ["fail"]),
        (broken_afterwards, Succeeded, ["start", "ran", "done", "leaving an admission: ValueError: boom"]),
        (returning(None), Failed, ["fail"]),
    ],
    ids=["passes", "moved", "rescheduled", "failed", "interrupted", "broken afterwards", "no outcome"],
)
def test_a_job_that_an_admission_keeps_from_running_does_not_start(config, caplog, admission, outcome, lines):
    caplog.set_level(logging.INFO, "offsider")
    config.admissions.add(admission)
    executor = make_executor(config)
    job(name="J")(lambda: logging.getLogger("offsider").info("ran"))
    raw = encode({"class": "J", "args": [], "queue": "low", "jid": "a" * 24})
    for _ in range(2):
        caplog.clear()
        assert type(run_job(executor, UnitOfWork("low", raw)).outcome) is outcome
        assert [record.getMessage() for record in caplog.records] == lines


@pytest.mark.parametrize(
    "limit, count, fails", [(3, 2, False), (3, 3, True), (3, 4, True), (None, 10**6, False), (3, "x", False)]
)
def test_a_reschedule_beyond_its_limit_is_a_failure(run, limit, count, fails):
    job(name="J")(raises(Reschedule(5, limit=limit)))
    outcome = run(rescheduled_count=count).outcome
    assert type(outcome) is (Failed if fails else Rescheduled)
    assert not fails or isinstance(outcome.error, TooManyReschedules)


def test_a_reschedule_while_the_worker_stops_is_not_counted(run):
    job(name="J")(raises(Reschedule(0, limit=1)))
    assert run(stopping=True, rescheduled_count=7).outcome == Rescheduled(0.0)


@pytest.mark.parametrize("raw", [b"", b"no json", b"[]", b'{"class":"J"}'])
def test_invalid_bytes_end_immediately(run, raw):
    ended = run(raw)
    assert isinstance(ended.outcome, Malformed)
    assert ended.outcome.error.raw == raw
    assert ended.job is None


def test_the_context_has_the_job_and_whether_the_worker_stops(run):
    seen = []

    @job(name="J")
    def looks() -> None:
        context = current_job()
        seen.append((context.jid, context.queue, context.stopping))

    run()
    run(stopping=True)
    assert seen == [("a" * 24, "taken_from", False), ("a" * 24, "taken_from", True)]
    with pytest.raises(NoCurrentJob):
        current_job()


TOPIC: ContextVar[str] = ContextVar("topic", default="none")


async def as_coroutine(perform) -> object:
    await asyncio.sleep(0)
    return perform()


@pytest.fixture(params=["def", "async def", "def that returns a coroutine"])
def declare(request):
    """Declares the job `J` of one kind."""

    def declare(perform):
        async def async_perform() -> object:
            return await as_coroutine(perform)

        kinds = {"def": perform, "async def": async_perform}
        return job(name="J")(kinds.get(request.param, lambda: as_coroutine(perform)))

    return declare


@contextmanager
def topic(name: str):
    token = TOPIC.set(name)
    try:
        yield
    finally:
        TOPIC.reset(token)


def test_context_variables_of_middleware_are_seen_in_the_job_and_after_it(config, run, declare):
    seen = []

    def perform() -> None:
        seen.append((TOPIC.get(), current_job().jid))
        TOPIC.set("of the job")

    def middleware(context):
        with topic("of the middleware"):
            yield
            seen.append((TOPIC.get(), current_job().jid))

    config.server_middleware.add(middleware)
    declare(perform)
    assert run().outcome == Succeeded()
    assert seen == [("of the middleware", "a" * 24), ("of the job", "a" * 24)]
    assert TOPIC.get() == "none"


def test_middleware_may_swallow_or_replace_an_error_and_replace_a_result(config, run, declare):
    def inner(context):
        with suppress(LookupError):
            return f"{(yield)} replaced"
        return "swallowed"

    def outer(context):
        try:
            yield
        except OSError as error:
            raise ValueError("replaced") from error

    config.server_middleware.add(outer, inner)
    results: list[BaseException | str] = [LookupError("swallow this"), "result", OSError("replace this"), Shutdown()]

    def perform() -> object:
        result = results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    declare(perform)
    assert [run().job.result for _ in range(2)] == ["swallowed", "result replaced"]
    assert repr(run().outcome.error) == "ValueError('replaced')"
    assert run().outcome == Interrupted()


class Bound:
    """Middleware that must be left in the thread that entered it."""

    thread_bound = True

    def __init__(self, name: str) -> None:
        self._name = name

    def concerns(self, job) -> bool:
        return job.name == self._name

    def __call__(self, job):
        thread = threading.current_thread()
        yield
        assert threading.current_thread() is thread


@pytest.mark.parametrize(
    "name, chain", [("J", "server_middleware"), ("Other", "server_middleware"), ("J", "admissions")]
)
def test_middleware_that_is_bound_to_its_thread_refuses_coroutines(config, run, declare, request, *, name, chain):
    ran = []
    getattr(config, chain).add(Bound(name))
    declare(lambda: ran.append(1))
    outcome = run().outcome
    if name == "Other" or request.node.callspec.params["declare"] == "def":
        assert outcome == Succeeded()
        return
    assert ran == []
    assert str(outcome.error).startswith(
        "the server middleware Bound is bound to its thread (thread_bound), and the async job J runs without one: "
        "declare the job with def"
    )


def test_a_coroutine_that_gets_no_seat_before_the_stop_does_not_start(config, caplog):
    caplog.set_level(logging.INFO, logger="offsider")

    @job(name="J")
    async def never() -> None: ...

    runner = AsyncRunner("test")
    runner.quiet()
    outcome = run_job(make_executor(config, runner), UnitOfWork("low", encode({"class": "J", "args": []}))).outcome
    assert outcome == Interrupted(has_started=False)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "declare, ends", [("async def", Rescheduled), ("def that returns a coroutine", Failed)], indirect=["declare"]
)
def test_a_job_whose_event_loop_cannot_start_holds_no_seat(config, declare, ends, monkeypatch, reports):
    declare(lambda: None)
    runner, start = AsyncRunner("refused", 1), threading.Thread.start

    def refuses(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    for _ in range(3):
        assert isinstance(run_job(make_executor(config, runner), UnitOfWork("low", JOB)).outcome, ends)
    assert runner._free_seats == 1
    monkeypatch.setattr(threading.Thread, "start", start)
    assert isinstance(run_job(make_executor(config, runner), UnitOfWork("low", JOB)).outcome, Succeeded)
    runner.stop()


def test_limits_do_not_count_the_wait_for_a_seat(config, limited, monkeypatch):
    """Of an async job below a decorator that is a plain wrapper, which has begun the watch already."""
    monkeypatch.setattr("offsider.worker.run.time_limits.GRACE_SECONDS", 0.01)
    (executor, overruns), ended = limited, []
    runner, limits = executor._async_runner, executor._time_limits
    runner._free_seats = 0

    def a_seat_is_left_later():
        wait_for(lambda: runner._waiting)
        for ahead in (100, 200):  # at the limit, and after it
            monkeypatch.setattr(limits, "_now", lambda ahead=ahead: time.monotonic() + ahead)
            limits.tick()
        runner.leave_seat()

    @job(name="J", hard_timeout=60)
    def decorated():
        threading.Thread(target=a_seat_is_left_later).start()
        return as_coroutine(lambda: ended.append(1))

    unit = UnitOfWork("low", JOB)
    assert isinstance(run_job(executor, unit).outcome, Succeeded)
    assert (ended, unit.settled, overruns) == ([1], False, [])


def test_an_error_outside_of_the_run_leaves_the_seat(config, monkeypatch):
    @job(name="J")
    async def never() -> None: ...

    executor = make_executor(config)
    monkeypatch.setattr(executor, "_start", lambda *_: [].pop())
    with pytest.raises(IndexError):
        run_job(executor, UnitOfWork("low", JOB))
    assert executor._async_runner._free_seats == 100
    executor._async_runner.stop()


def test_a_coroutine_runs_on_the_loop_of_the_capsule_with_its_own_job(run):
    seen = []

    @job(name="J")
    async def waits() -> None:
        seen.append((threading.current_thread().name, current_job().jid))
        raise LookupError("from the loop")

    outcome = run().outcome
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == "from the loop"
    assert seen == [("loop-of-the-test-loop", "a" * 24)]


@pytest.mark.parametrize(
    "signal, outcome",
    [
        (Skip("not today"), Skipped),
        (Discard("too old"), Discarded),
        (Reschedule(3), Rescheduled),
        (Shutdown(), Interrupted),
        (SystemExit(1), Failed),
        (asyncio.CancelledError(), Failed),
    ],
)
@pytest.mark.parametrize("where", ["middleware", "reloader", "coroutine", "making the object"])
def test_signals_have_the_same_effect_wherever_they_are_raised(config, run, signal, outcome, where):
    def leave(*_):
        raise signal

    if where == "middleware":
        config.server_middleware.add(raising(signal))
    elif where == "reloader":
        config.reloader = raising(signal)

    class J(Job, name="J"):
        def __init__(self) -> None:
            if where == "making the object":
                leave()

        async def perform(self) -> None:
            if where == "coroutine":
                leave()

    assert type(run().outcome) is outcome


@pytest.mark.parametrize(
    "fields",
    [
        {"args": []},
        {"args": [1, 2, 3]},
        {"args": [1], "kwargs": {}},
        {"args": [1, 2], "kwargs": {"speed": 3}},
        {"args": [1], "kwargs": {"first": 1, "unit": "m"}},
    ],
)
def test_arguments_that_do_not_fit_are_reported_with_their_count_and_the_signature(run, fields):
    ran = []

    class J(Job, name="J"):
        def perform(self, first: int, second: int = 2, *, unit: str) -> None:
            ran.append(1)

    outcome = run(**fields).outcome
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, InvalidArguments)
    message = str(outcome.error).replace("'", "")
    names = "".join(", 1 unknown name" if name == "speed" else f", {name}" for name in fields.get("kwargs", {}))
    assert f"the stored arguments ({len(fields['args'])} positional{names}) do not match" in message
    assert "J(first: int, second: int = 2, *, unit: str)" in message
    assert ran == []


@pytest.fixture
def limited(config):
    """An executor with time limits, and the overruns reported to it."""
    runner, time_limits, overruns = AsyncRunner("loop-of-the-test"), TimeLimits(config), []
    executor = make_executor(config, runner, lambda *reported: overruns.append(reported), time_limits=time_limits)
    yield executor, overruns
    runner.stop()
    time_limits.stop()


@pytest.mark.parametrize("fields", [{}, {"hard_timeout": 100}])
def test_a_job_whose_body_did_not_run_has_failed(limited, declare, fields):
    declare(lambda: (each for each in "ab"))
    outcome = run_job(limited[0], UnitOfWork("default", encode({"class": "J", "args": []} | fields))).outcome
    assert isinstance(outcome, Failed)
    assert "J returned an object of the class generator, whose body has not run" in str(outcome.error)


@pytest.mark.parametrize("name", ["__cause__", "__context__", "__traceback__"])
def test_an_error_whose_attribute_raises_fails_its_job(limited, name):
    def ends(_):
        raise SystemExit(5)

    error = type("OddError", (Exception,), {name: property(ends)})()

    @job(name="J")
    def fails() -> None:
        raise error

    outcome = run_job(limited[0], UnitOfWork("default", encode({"class": "J", "args": []}))).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error is error


def test_a_coroutine_that_is_late_has_failed_with_its_limit(limited):
    @job(name="J", soft_timeout=0.3)  # a busy machine has the loop ready by then
    async def waits() -> None:
        await asyncio.Event().wait()

    outcome = run_job(limited[0], UnitOfWork("default", encode({"class": "J", "args": []}))).outcome
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, SoftTimeout)


def test_outside_of_perform_nothing_can_be_interrupted(config):
    seen: list[tuple[str, bool]] = []
    executor: Executor

    def tell(where: str) -> None:
        seen.append((where, executor.window._thread_id is not None))

    def middleware(context):
        tell("before")
        yield
        tell("after")

    @job(name="J")
    def looks() -> None:
        tell("inside")

    config.server_middleware.add(middleware)
    executor = make_executor(config)
    run_job(executor, UnitOfWork("default", encode({"class": "J", "args": []})))
    assert seen == [("before", False), ("inside", True), ("after", False)]


def test_compressed_arguments_reach_middleware_and_the_job_plain(config, run):
    seen, got = [], []

    def looks(job):
        seen.append(job.payload)
        yield

    @job(name="J")
    def takes(text: str, *, unit: str) -> None:
        got.append((text, unit))

    config.server_middleware.add(looks)
    packed = compress({"class": "J", "args": ["x" * 1000], "kwargs": {"unit": "m"}, "queue": "low", "jid": "a" * 24})
    raw = encode(packed)
    assert isinstance(run(raw).outcome, Succeeded)
    assert got == [("x" * 1000, "m")]
    assert seen[0]["args"] == ["x" * 1000]
    assert "compressed" not in seen[0]


def test_compressed_arguments_that_cannot_be_read_make_it_no_job(run):
    raw = encode({"class": "J", "args": ["%"], "compressed": True, "original_job_size_bytes": 9})
    outcome = run(raw).outcome
    assert isinstance(outcome, Malformed)
    assert outcome.error.raw == raw


# --------------------------------------------------------------------------------- foreign payloads


def test_values_that_ruby_accepts_make_no_job_malformed(run):
    seen: list[dict] = []

    @job(name="J")
    def looks() -> None:
        seen.append(dict(current_job().payload))

    odd = {"log_level": 1, "retry": "5", "backtrace": "10", "dead": "false", "queue": None, "jid": 7, "kwargs": [1]}
    odd |= {"soft_timeout": "fast", "interrupted_count": {"x": 1}, "tags": None}
    assert isinstance(run(**odd).outcome, Succeeded)
    known = {"class": "J", "args": [], "log_level": "info", "retry": True, "backtrace": 10, "dead": True, "jid": "7"}
    assert seen == [known | {"tags": None}]


def test_an_ignored_value_is_warned_of_once_for_a_class_by_all_threads_and_never_shown(config, caplog, monkeypatch):
    monkeypatch.setattr(wording, "_seen", {})

    @job(name="J")
    def takes(secret: str) -> None: ...

    @job(name="K")
    def takes_none() -> None: ...

    runner = AsyncRunner("loop-of-the-test")
    of_each_thread = [make_executor(config, runner) for _ in range(2)]
    for executor, jid, name in zip(cycle(of_each_thread), "abcd", "JJJK", strict=False):
        args = ["pa55"] if name == "J" else []
        odd = {"kwargs": ["pa55"], "soft_timeout": True, "retry": "5", "tags": None}
        raw = encode({"class": name, "args": args, "jid": jid, **odd})
        assert isinstance(run_job(executor, UnitOfWork("low", raw)).outcome, Succeeded)
    runner.stop()
    suffix = "(logged once per class)"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"J JID-a: ignoring 'kwargs', because its value is an array {suffix}",
        f"J JID-a: ignoring 'soft_timeout', because its value is a boolean {suffix}",
        f"K JID-d: ignoring 'kwargs', because its value is an array {suffix}",
        f"K JID-d: ignoring 'soft_timeout', because its value is a boolean {suffix}",
    ]
    assert "pa55" not in caplog.text
