"""One run of a job, from its bytes to its outcome: the order of the layers, and the meaning of each ending."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from itertools import cycle

import pytest

from offsider import Discard, Job, NoCapableWorker, Reschedule, Skip, TooManyReschedules, UnknownJob, current_job, job
from offsider.config.config import Config
from offsider.core import once
from offsider.core.compression import compress
from offsider.core.errors import HardTimeout, InvalidArguments, NoCurrentJob, Shutdown, SoftTimeout
from offsider.core.outcome import Discarded, Failed, Interrupted, Malformed, NotStarted, Rescheduled, Skipped, Succeeded
from offsider.core.payload import encode
from offsider.jobs import registry
from offsider.storage.working import Owner, PrivateListEntry
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.executor import SHORT_RUNS, SHORT_SECONDS, Executor
from offsider.worker.run.stranded import StrandedCheck
from offsider.worker.run.time_limits import TimeLimits
from offsider.worker.unit_of_work import UnitOfWork
from tests.middleware import raising, returning
from tests.unit.worker.executors import make_executor
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def forgotten():
    with registry.isolated():
        yield


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
def run(config):
    """Runs a payload to its end, in the capsule ``default``."""
    runner = AsyncRunner("loop-of-the-test")

    def run(raw: bytes | None = None, *, stopping: bool = False, **fields):
        raw = encode({"class": "J", "args": [], "queue": "low", "jid": "a" * 24, **fields}) if raw is None else raw
        executor = make_executor(config, runner, stopping=lambda: stopping)
        return executor.run(UnitOfWork("taken_from", raw), 0.0)

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
    executor = make_executor(config, admissions=(judge,))

    def outcome(**fields):
        return executor.run(UnitOfWork("low", encode({"class": "J", "args": [], "jid": "a", **fields})), 0.0).outcome

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
    return [executor.run(UnitOfWork("low", raw), 0.0).cpu_seconds is not None for _ in range(runs)]


def test_cpu_time_is_sampled_for_short_runs_and_measured_for_long_ones(executor):
    job(name="Short")(lambda: None)
    job(name="Long")(lambda: time.sleep(2 * SHORT_SECONDS))
    assert True in measured(executor, "Short", 3)
    assert measured(executor, "Long", 4)[1:] == [True] * 3
    assert measured(executor, "Short", SHORT_RUNS).count(True) < SHORT_RUNS


def test_listeners_receive_every_detail_of_a_run(config, executor):
    config.on("execution_finished", lambda news: None)
    job(name="Short")(lambda: None)
    assert measured(executor, "Short", 5) == [True] * 5


def test_middleware_receives_the_private_list_and_the_process(config):
    seen = []
    config.server_middleware.add(lambda job: seen.append((job.entry, job.process)) or (yield))
    config.freeze()
    executor = make_executor(config)
    raw = encode({"class": "J", "args": [], "queue": "low", "jid": "a" * 24})
    job(name="J")(lambda: None)
    alone = UnitOfWork("low", raw, alone_in="host:1:a")
    for unit in (UnitOfWork("low", raw, Owner("host:2:b", "default")), alone):
        executor.run(unit, 0.0)
    assert seen == [(PrivateListEntry(Owner("host:2:b", "default"), "low", raw), "host:2:b"), (None, "host:1:a")]


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
        assert type(executor.run(UnitOfWork("low", raw), 0.0).outcome) is outcome
        assert [record.getMessage() for record in caplog.records] == lines


def test_admissions_run_in_order_before_all_middleware(config):
    steps = []
    config.server_middleware.add(lambda job: steps.append("middleware") or (yield))
    for name in ("first", "second"):
        config.admissions.add(lambda job, name=name: steps.append(name) or (yield))
    job(name="J")(lambda: steps.append("ran"))
    make_executor(config).run(UnitOfWork("low", encode({"class": "J", "args": []})), 0.0)
    assert steps == ["first", "second", "middleware", "ran"]


def test_an_outcome_carries_the_fields_bound_by_the_job(run):
    job(name="J")(raises(Reschedule(12.5)))
    assert run().outcome == Rescheduled(12.5, counted=True)
    with registry.isolated():
        job(name="L")(raises(Reschedule(3, reason="closed")))
        assert run(**{"class": "L"}).outcome == Rescheduled(3, "closed", counted=True)
    with registry.isolated():
        job(name="K")(raises(Skip("nothing to do")))
        assert run(**{"class": "K"}).outcome == Skipped("nothing to do")


@pytest.mark.parametrize(
    "limit, count, fails", [(3, 2, False), (3, 3, True), (3, 4, True), (None, 10**6, False), (3, "x", False)]
)
def test_a_reschedule_beyond_its_limit_is_a_failure(run, limit, count, fails):
    job(name="J")(raises(Reschedule(5, limit=limit)))
    outcome = run(rescheduled_count=count).outcome
    assert type(outcome) is (Failed if fails else Rescheduled)
    assert not fails or isinstance(outcome.error, TooManyReschedules)


def test_a_reschedule_while_the_worker_stops_is_not_counted(config):
    executor = make_executor(config, stopping=lambda: True)
    job(name="J")(raises(Reschedule(0, limit=1)))
    raw = encode({"class": "J", "args": [], "jid": "a" * 24, "rescheduled_count": 7})
    assert executor.run(UnitOfWork("low", raw), 0.0).outcome == Rescheduled(0.0)


@pytest.mark.parametrize("raw", [b"", b"no json", b"[]", b'{"class":"J"}'])
def test_invalid_bytes_end_immediately(run, raw):
    ended = run(raw)
    assert isinstance(ended.outcome, Malformed)
    assert ended.outcome.error.raw == raw
    assert ended.job is None


def test_arguments_that_do_not_fit_are_a_failure_that_names_both(run):
    @job(name="J")
    def two(first: int, second: int) -> None: ...

    outcome = run(args=[1]).outcome
    assert isinstance(outcome, Failed)
    assert "J(first: int, second: int)" in str(outcome.error).replace("'", "")


def test_positional_and_keyword_only_arguments_reach_the_job(run):
    got = []

    @job(name="J")
    def both(number: int, *, unit: str) -> None:
        got.append((number, unit))

    assert isinstance(run(args=[7], kwargs={"unit": "m"}).outcome, Succeeded)
    assert got == [(7, "m")]


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


def test_a_coroutine_runs_on_the_loop_of_the_capsule_with_its_own_job(run):
    seen = []

    @job(name="J")
    async def waits() -> None:
        seen.append((threading.current_thread().name, current_job().jid))
        raise LookupError("from the loop")

    outcome = run().outcome
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == "from the loop"
    assert seen == [("loop-of-the-test", "a" * 24)]


def test_changes_by_middleware_are_not_stored(config, run):
    @job(name="J")
    def fine(word: str) -> None: ...

    def changes(context):
        context.payload["args"] = ["changed"]
        yield

    config.server_middleware.add(changes)
    ended = run(args=["as pushed"])
    assert ended.job.args == ["changed"]
    assert b"as pushed" in ended.job.raw


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


def test_middleware_that_swallows_an_error_makes_the_run_a_success(config, run):
    @job(name="J")
    def fails() -> None:
        raise LookupError("forgiven")

    def forgive(context):
        with suppress(LookupError):
            yield

    config.server_middleware.add(forgive)
    assert isinstance(run().outcome, Succeeded)


def test_cleanup_also_runs_after_a_failure(config, run):
    steps: list[str] = []

    def reloader(_job):
        try:
            yield
        finally:
            steps.append("reloader out")

    def middleware(context):
        try:
            yield
        finally:
            steps.append("middleware out")

    job(name="J")(raises(SystemExit(3)))
    config.reloader = reloader
    config.server_middleware.add(middleware)
    assert isinstance(run().outcome, Failed)
    assert steps == ["middleware out", "reloader out"]


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


def test_each_run_of_a_class_has_its_own_object_with_its_job(run):
    objects = []

    class J(Job, name="J"):
        def perform(self, word: str, *, loud: bool = False) -> None:
            objects.append((self, self.jid, self.job.args, word, loud))

    run(args=["a"], jid="b" * 24)
    run(args=["c"], kwargs={"loud": True}, jid="d" * 24)
    assert [seen[1:] for seen in objects] == [("b" * 24, ["a"], "a", False), ("d" * 24, ["c"], "c", True)]
    assert objects[0][0] is not objects[1][0]


@pytest.fixture
def limited(config):
    """An executor with time limits, and the overruns reported to it."""
    runner, time_limits, overruns = AsyncRunner("loop-of-the-test"), TimeLimits(config), []
    executor = make_executor(config, runner, lambda *reported: overruns.append(reported), time_limits=time_limits)
    yield executor, overruns
    runner.stop()
    time_limits.stop()


def test_a_job_with_a_limit_can_read_the_remaining_time(limited):
    seen = []

    @job(name="J")
    def looks() -> None:
        seen.append(current_job().time_left_seconds)

    raw = {"class": "J", "args": []}
    for fields in ({}, {"hard_timeout": 100}):
        assert isinstance(limited[0].run(UnitOfWork("default", encode(raw | fields)), 0.0).outcome, Succeeded)
    assert seen[0] is None
    assert 90 < seen[1] <= 100


@pytest.mark.parametrize("fields", [{}, {"hard_timeout": 100}])
def test_a_job_whose_body_did_not_run_has_failed(limited, fields):
    @job(name="J")
    def lazy() -> object:
        return (each for each in "ab")

    outcome = limited[0].run(UnitOfWork("default", encode({"class": "J", "args": []} | fields)), 0.0).outcome
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

    outcome = limited[0].run(UnitOfWork("default", encode({"class": "J", "args": []})), 0.0).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error is error


def test_a_coroutine_that_is_late_has_failed_with_its_limit(limited):
    @job(name="J", soft_timeout=0.3)  # a busy machine has the loop ready by then
    async def waits() -> None:
        await asyncio.Event().wait()

    outcome = limited[0].run(UnitOfWork("default", encode({"class": "J", "args": []})), 0.0).outcome
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, SoftTimeout)


def test_a_job_that_returns_after_it_was_abandoned_is_not_settled_again(limited, monkeypatch):
    monkeypatch.setattr("offsider.worker.run.time_limits.GRACE_SECONDS", 0.02)
    executor, overruns = limited

    @job(name="J", hard_timeout=0.02)
    async def blocks() -> None:
        wait_for(lambda: overruns)

    unit = UnitOfWork("default", encode({"class": "J", "args": [], "jid": "a" * 24}))
    executor.run(unit, 0.0)
    wait_for(lambda: unit.settled)
    [(reported, run)] = overruns
    assert reported is unit
    assert isinstance(run.outcome.error, HardTimeout)
    assert run.duration_seconds > 0.04
    assert run.job.jid == "a" * 24


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
    executor.run(UnitOfWork("default", encode({"class": "J", "args": []})), 0.0)
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
    monkeypatch.setattr(once, "_seen", {})

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
        assert isinstance(executor.run(UnitOfWork("low", raw), 0.0).outcome, Succeeded)
    runner.stop()
    suffix = "(logged once per class)"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"J JID-a: ignoring 'kwargs', because its value is an array {suffix}",
        f"J JID-a: ignoring 'soft_timeout', because its value is a boolean {suffix}",
        f"K JID-d: ignoring 'kwargs', because its value is an array {suffix}",
        f"K JID-d: ignoring 'soft_timeout', because its value is a boolean {suffix}",
    ]
    assert "pa55" not in caplog.text
