"""What becomes of a job that failed: another try, the dead set, or nothing; as Sidekiq decides it."""

from __future__ import annotations

from asyncio import CancelledError
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from offsider import Job, NoCapableWorker, Retry, UnknownJob, job
from offsider.config.config import Config
from offsider.core.compression import compress, expand, expand_backtrace
from offsider.core.error_text import message_of
from offsider.core.outcome import Failed, Malformed
from offsider.core.payload import decode, encode
from offsider.jobs import registry
from offsider.runtime.context import JobContext
from offsider.worker.disposition import Dead, Done, Later
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.settle.retrier import Retrier, backtrace_lines, jitter, retry_delay
from offsider.worker.unit_of_work import UnitOfWork
from tests.unit.worker.executors import make_executor, run_job

NOW = 1_795_216_780.6525
NOW_MS = 1_795_216_780_652
STORED = {"class": "HardJob", "args": [1], "queue": "low", "jid": "a" * 24, "retry": True, "foreign": {"kept": 2**70}}


@pytest.fixture(autouse=True)
def now(clock) -> None:
    clock.seconds = NOW


@pytest.fixture
def decide(config):
    """The decision about a payload that differs from STORED in ``fields``; None takes a key out."""

    def decide(error: BaseException | None = None, **fields):
        payload = {key: value for key, value in {**STORED, **fields}.items() if value is not None}
        run = JobContext(payload=dict(payload), queue="taken_from", raw=encode(payload))
        if payload["class"] in registry.names():
            run.declared = registry.find(payload["class"])
        return Retrier(config).decide(run, error or ValueError("boom"))

    return decide


def stored(decision):
    """The payload that is written."""
    assert isinstance(decision, Later | Dead)
    return decode(decision.payload)


# ---------------------------------------------------------------------------------- the count


def test_the_first_failure_sets_count_zero_and_keeps_foreign_keys(decide):
    payload = stored(decide())
    expected = {"error_message": "boom", "error_class": "ValueError", "failed_at": NOW_MS, "retry_count": 0}
    assert payload == STORED | expected | {"queue": "taken_from"}


def test_later_failures_count_up_and_keep_the_first_time(decide):
    payload = stored(decide(retry_count=0, failed_at=5))
    assert (payload["retry_count"], payload["failed_at"], payload["retried_at"]) == (1, 5, NOW_MS)


def test_a_retry_of_3_means_4_runs(decide):
    decisions = [decide(retry=3, retry_count=count) for count in (None, 0, 1, 2)]
    assert [type(decision) for decision in decisions] == [Later, Later, Later, Dead]
    assert stored(decisions[-1])["retry_count"] == 3


def test_retry_true_means_the_max_attempts_of_the_worker(decide, config):
    assert isinstance(decide(retry_count=23), Later)
    assert isinstance(decide(retry_count=24), Dead)
    config.worker.max_retries = 2
    assert isinstance(decide(retry_count=1), Dead)
    assert isinstance(decide(retry=30, retry_count=24), Later)


def test_zero_buries_at_once_and_false_forgets(decide):
    assert stored(decide(retry=0))["retry_count"] == 0
    decision = decide(retry=False)
    assert isinstance(decision, Done)
    assert decision.died == {**STORED, "retry": False}  # as it was: death handlers get no failure of ours


def test_without_a_retry_option_the_declaration_decides(decide):
    @job(name="Once", retry=False)
    def once() -> None: ...

    @job(name="Plain")
    def plain() -> None: ...

    assert isinstance(decide(**{"class": "Once", "retry": None}), Done)
    assert isinstance(decide(**{"class": "Plain", "retry": None}), Later)
    assert isinstance(decide(**{"class": "Nobody", "retry": None}), Later)


def test_a_job_without_a_jid_gets_one(decide):
    assert len(stored(decide(jid=None))["jid"]) == 24


# ----------------------------------------------------------------------------------- how long


@pytest.mark.parametrize("failed_ago, kind", [(59, Later), (61, Dead)])
@pytest.mark.parametrize("form", [int, float])
def test_retry_for_counts_from_the_first_failure_and_not_the_tries(decide, failed_ago, kind, form):
    failed_at = int((NOW - failed_ago) * 1000) if form is int else NOW - failed_ago
    assert isinstance(decide(retry_for=60, retry_count=99, failed_at=failed_at), kind)


def test_a_first_failure_is_always_within_retry_for(decide):
    assert isinstance(decide(retry_for=0.001), Later)


@pytest.mark.parametrize("asked, base", [(90, 90), (1.5, 1.5), (None, None), (0, None), (-3, None)])
def test_retry_in_may_return_a_delay_to_which_jitter_is_added(decide, config, asked, base):
    @job(name="Own", retry_in=lambda count, error, payload: asked)
    def own() -> None: ...

    config.random = Random(3)
    expected = retry_delay(2, Random(3)) if base is None else base + jitter(2, Random(3))
    assert decide(**{"class": "Own", "retry_count": 1}).delay_seconds == expected


def test_a_timedelta_of_retry_in_is_exact(decide):
    @job(name="Own", retry_in=lambda count, error, payload: timedelta(seconds=37))
    def own() -> None: ...

    assert {decide(**{"class": "Own", "retry_count": 9}).delay_seconds for _ in range(20)} == {37.0}


def test_the_delay_that_a_job_raises_is_exact_and_comes_before_that_of_its_class(decide):
    @job(name="Own", retry_in=lambda count, error, payload: 5)
    def own() -> None: ...

    asked = {"class": "Own", "retry_count": 2}
    assert {decide(error, **asked).delay_seconds for error in (Retry(37), Retry(timedelta(seconds=37)))} == {37.0}
    assert decide(Retry(reason="down"), **asked).delay_seconds >= 5
    assert isinstance(decide(Retry(37), **{"class": "Own", "retry": 3, "retry_count": 2}), Dead)


def test_retry_in_gets_count_error_and_payload(decide):
    seen = []

    class Own(Job, name="Own"):
        def perform(self) -> None: ...

        @staticmethod
        def retry_in(count, error, payload):
            seen.append((count, str(error), payload["retry_count"], payload["jid"]))

    decide(**{"class": "Own", "retry_count": 4})
    assert seen == [(5, "boom", 5, "a" * 24)]


def test_retry_in_may_kill_or_discard(decide):
    @job(name="Own", retry_in=lambda count, error, payload: str(error))
    def own() -> None: ...

    killed = decide(ValueError("kill"), **{"class": "Own"})
    assert stored(killed)["retry_count"] == 0
    discarded = decide(ValueError("discard"), **{"class": "Own"})
    assert isinstance(discarded, Done)
    assert discarded.died["discarded_at"] == NOW_MS


@pytest.mark.parametrize("asked", ["soon", object(), float("nan"), float("inf"), 1e300, 10**400, timedelta.max, [1]])
def test_a_retry_in_that_makes_no_sense_falls_back_to_the_formula(decide, asked):
    @job(name="Own", retry_in=lambda count, error, payload: asked)
    def own() -> None: ...

    assert 15 <= decide(**{"class": "Own"}).delay_seconds < 25


# ---------------------------------------------------------------------------------- exhausted


def test_on_exhausted_has_the_last_word(decide):
    reported = []

    def last_word(payload, error):
        reported.append((payload["retry_count"], str(error)))
        return "discard" if payload["args"] == [1] else None

    @job(name="Last", retry=0, on_exhausted=last_word)
    def last() -> None: ...

    discarded = decide(**{"class": "Last", "retry": 0})
    assert isinstance(discarded, Done)
    assert discarded.died["discarded_at"] == NOW_MS
    assert isinstance(decide(**{"class": "Last", "retry": 0, "args": [2]}), Dead)
    assert isinstance(decide(**{"class": "Last", "retry": 1}), Later)
    assert reported == [(0, "boom"), (0, "boom")]


def test_dead_false_keeps_a_job_out_of_the_dead_set(decide):
    decision = decide(retry=0, dead=False)
    assert isinstance(decision, Done)
    assert decision.died["discarded_at"] == NOW_MS
    assert isinstance(decide(retry=0, dead=True), Dead)
    assert isinstance(decide(dead=False), Later)


def test_a_discarded_job_has_a_timestamp(config):
    run = JobContext(payload=decode(encode(STORED)), queue="low", raw=encode(STORED))
    assert Retrier(config).discard(run).died == STORED | {"discarded_at": NOW_MS}


# --------------------------------------------------------------------------- recorded error details


def test_retries_use_the_retry_queue_or_the_original_queue(decide):
    assert stored(decide(retry_queue="later"))["queue"] == "later"
    assert stored(decide())["queue"] == "taken_from"


def test_changes_by_middleware_or_the_job_are_not_stored(config):
    run = JobContext(payload={**STORED, "args": ["changed"]}, queue="low", raw=encode(STORED))
    assert stored(Retrier(config).decide(run, ValueError("boom")))["args"] == [1]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error, message",
    [
        (ValueError("x" * 10_001), "x" * 10_000),
        (ValueError("a \ud800 surrogate"), "a ? surrogate"),
        (ValueError(), ""),
        (Unspeakable(), "(the message of this error cannot be shown: its __str__ raised RuntimeError)"),
    ],
)
def test_any_message_can_be_stored(decide, error, message):
    assert message_of(error) == message
    assert stored(decide(error))["error_message"] == message


def deep(levels: int) -> None:
    if levels == 0:
        raise LookupError("deep")
    deep(levels - 1)


@pytest.fixture
def deep_error() -> BaseException:
    with pytest.raises(LookupError) as caught:
        deep(3)
    return caught.value


@pytest.mark.parametrize("wanted, lines", [(None, 0), (False, 0), (0, 0), (-1, 0), (2, 2), (True, 5), (99, 5)])
def test_the_backtrace_has_as_many_lines_as_wanted_innermost_first(decide, deep_error, wanted, lines):
    payload = stored(decide(deep_error, backtrace=wanted))
    kept = expand_backtrace(payload["error_backtrace"]) if "error_backtrace" in payload else []
    assert len(kept) == lines
    assert kept == backtrace_lines(deep_error, True)[:lines]
    assert all(line.endswith(":in `deep'") and line.startswith(__file__) for line in kept[:4])


@pytest.mark.parametrize("version, stamp", [(6, NOW), (7, NOW), (8, NOW_MS)])
def test_times_are_written_in_the_form_of_the_wire_version(decide, config, version, stamp):
    config.redis.wire_version = version
    assert stored(decide())["failed_at"] == stamp
    assert stored(decide(retry_count=0, failed_at=1))["retried_at"] == stamp
    assert decide(retry=0, dead=False).died["discarded_at"] == stamp


# ------------------------------------------------------------------------------- cases at the rim


class Highest(Random):
    """Draws the highest number, and records the requested ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    def randint(self, a: int, b: int) -> int:
        self.asked.append((a, b))
        return b


@pytest.mark.parametrize("count", range(25))
def test_the_formula_digit_by_digit(decide, config, count):
    config.random = Highest()
    decision = decide(retry_count=count - 1 if count else None)
    assert config.random.asked == [(0, 10 * (count + 1) - 1)]
    assert decision.delay_seconds == count**4 + 15 + 10 * (count + 1) - 1


def test_twenty_five_retries_take_about_three_weeks(decide):
    delays = [decide(retry_count=count).delay_seconds for count in (None, *range(24))]
    assert 20 <= sum(delays) / 86_400 <= 21


@pytest.mark.parametrize(
    "raised", [LookupError(), SystemExit(1), KeyboardInterrupt(), CancelledError(), GeneratorExit()], ids=repr
)
def test_a_callback_that_raises_or_exits_is_reported_and_loses_no_job(decide, reports, raised):
    """Else the thread would die before the outcome is written, and the job would run again, uncounted, for ever."""

    def leave(*_):
        raise raised

    @job(name="Leaves", retry_in=leave, on_exhausted=leave)
    def leaves() -> None: ...

    assert 15 <= decide(**{"class": "Leaves"}).delay_seconds < 25
    assert isinstance(decide(**{"class": "Leaves", "retry": 0}), Dead)
    expected = [(raised, "retry_in of Leaves"), (raised, "on_exhausted of Leaves")]
    assert [(error, reported["context"]) for error, reported in reports] == expected


@pytest.mark.parametrize("version", [6, 7, 8])
def test_the_backtrace_is_broken_into_lines_for_sidekiq_6_alone(decide, config, deep_error, version):
    config.redis.wire_version = version
    text = stored(decide(deep_error, backtrace=True))["error_backtrace"]
    assert ("\n" in text) == (version == 6)
    assert expand_backtrace(text) == backtrace_lines(deep_error, True)


def test_an_error_that_was_never_raised_has_no_backtrace(decide):
    assert "error_backtrace" not in stored(decide(ValueError("made, not raised"), backtrace=True))


def test_a_job_that_kills_itself_calls_its_callbacks_and_may_skip_the_dead_set(decide):
    reported = []

    @job(name="Own", retry_in=lambda *_: "kill", on_exhausted=lambda payload, error: reported.append(payload["jid"]))
    def own() -> None: ...

    assert isinstance(decide(**{"class": "Own", "dead": False}), Done)
    assert reported == ["a" * 24]


# ---------------------------------------------------------------------------------- compressed arguments


def compressed(decide, **fields):
    packed = compress({**STORED, "args": ["x" * 1000], "kwargs": {"a": 1}, **fields})
    return decide(**packed)


def test_compressed_arguments_stay_compressed_and_callbacks_see_them_plain(decide):
    seen = []

    @job(name="HardJob", retry_in=lambda _count, _error, payload: seen.append(payload), retry=1)
    def hard(text: str, *, a: int) -> None: ...

    payload = stored(compressed(decide))
    assert payload["compressed"] is True
    assert expand(payload, b"")["args"] == ["x" * 1000]
    assert (seen[0]["args"], seen[0]["kwargs"]) == (["x" * 1000], {"a": 1})
    decision = compressed(decide, retry=0)
    assert isinstance(decision, Dead)
    assert decode(decision.payload)["compressed"] is True
    assert decision.died["args"] == ["x" * 1000]


def test_death_handlers_see_plain_arguments_of_a_job_that_is_not_kept(decide, config):
    dropped = compressed(decide, retry=False)
    assert isinstance(dropped, Done)
    assert dropped.died["args"] == ["x" * 1000]
    raw = encode(compress({**STORED, "args": ["y" * 1000]}))
    discarded = Retrier(config).discard(JobContext(payload=decode(raw), queue="q", raw=raw))
    assert discarded.died["args"] == ["y" * 1000]


# ------------------------------------------------------------------------------- jobs that never ran


@pytest.mark.parametrize("dead", [True, False])
@pytest.mark.parametrize("retry", [True, False, 0, 3, None])
def test_a_job_stranded_for_too_long_is_dead_with_any_options(decide, retry, dead):
    decision = decide(NoCapableWorker("none could for 30 days"), retry=retry, dead=dead, stranded_at=NOW_MS)
    assert isinstance(decision, Dead)
    payload = stored(decision)
    assert payload["error_message"] == "none could for 30 days"
    assert payload["error_class"] == "offsider.core.errors.NoCapableWorker"
    assert "stranded_at" not in payload


@pytest.mark.parametrize("dead", [True, False])
def test_the_callbacks_of_a_job_that_never_ran_are_not_called(decide, dead):
    called = []

    @job(name="Moved", on_exhausted=lambda payload, error: called.append(payload) or "discard")
    def elsewhere() -> None: ...

    decision = decide(NoCapableWorker("none could for 30 days"), **{"class": "Moved", "dead": dead})
    assert isinstance(decision, Dead)
    assert called == []
    assert "discarded_at" not in decision.died


@pytest.mark.parametrize("dead", [True, False])
@pytest.mark.parametrize("retry", [False, 0])
def test_a_job_of_an_unknown_class_without_retries_is_dead_and_never_dropped(config, retry, dead):
    raw = encode({**STORED, "retry": retry, "dead": dead})
    decision = Retrier(config).decide(JobContext(payload=decode(raw), queue="q", raw=raw), UnknownJob("Resize"))
    assert isinstance(decision, Dead)


def test_an_unknown_job_inside_a_declared_one_is_a_failure_like_others(decide):
    @job(name="HardJob")
    def hard_job(*args: object) -> None: ...

    assert isinstance(decide(UnknownJob("Other"), retry=False), Done)


def test_a_job_that_failed_is_stranded_no_more(decide):
    payload = stored(decide(stranded_at=NOW_MS))
    assert payload["retry_count"] == 0
    assert "stranded_at" not in payload


# --------------------------------------------------------------------------------- foreign payloads


def test_odd_values_count_as_ruby_counts_them(decide, deep_error):
    assert isinstance(decide(retry="5", retry_count=23), Later)
    assert isinstance(decide(retry=2.5, retry_count=24), Dead)  # no number of times to Ruby: as often as is usual
    assert isinstance(decide(retry=0, dead="false"), Dead)  # only false keeps a job out of the dead set
    assert len(expand_backtrace(stored(decide(deep_error, backtrace="1"))["error_backtrace"])) == 1
    assert stored(decide(retry_queue=5))["queue"] == "5"
    assert stored(decide(retry_queue=["low"]))["queue"] == "taken_from"
    assert stored(decide(retry_count=1.0))["retry_count"] == 2
    assert stored(decide(retry_count="x"))["retry_count"] == 0
    assert stored(decide(retry_count=-7, failed_at=1))["retry_count"] == 0
    assert isinstance(decide(retry_for="1h", retry_count=1), Later)
    assert isinstance(decide(retry_for=10**400, failed_at=5, retry_count=1), Later)
    assert stored(decide(jid=""))["jid"] != ""


@pytest.mark.parametrize("failed_at", ["yesterday", None, True])
def test_a_first_failure_that_cannot_be_read_is_now(decide, failed_at):
    """`retry_for` counts from it: without a beginning it would never end."""
    assert stored(decide(retry_for=60, retry_count=5, failed_at=failed_at))["failed_at"] == NOW_MS


@pytest.mark.parametrize("callback, retry", [("retry_in", True), ("on_exhausted", 0)])
def test_changes_of_a_callback_to_the_payload_are_not_stored(decide, callback, retry):
    """They need not be JSON, and would keep the outcome from being written."""

    def spoil(*given):
        (payload,) = (item for item in given if isinstance(item, dict))
        payload["object"] = object()

    job(name="Spoils", **{callback: spoil})(print)
    assert "object" not in stored(decide(**{"class": "Spoils", "retry": retry}))


def test_a_retry_keeps_odd_values_and_foreign_keys_unchanged(decide):
    odd = {"retry": "5", "dead": "false", "kwargs": [1], "soft_timeout": "x", "interrupted_count": "x", "jid": 7}
    assert stored(decide(**odd)).items() >= odd.items()


JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
JSON = JSON | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
KEYS = "kwargs jid queue retry retry_for retry_queue retry_count dead backtrace tags log_level soft_timeout"
KEYS += " hard_timeout interrupted_count signature failed_at error_backtrace stranded_at cattr"


@settings(max_examples=40)
@given(odd=st.dictionaries(st.sampled_from(KEYS.split()), JSON), fails=st.booleans())
def test_no_job_that_ruby_accepts_is_malformed_and_each_has_an_outcome(odd, fails):
    raw = encode({"class": "J", "args": [1], **odd})
    config = Config()
    with registry.isolated():

        @job(name="J")
        def work(_number: int) -> None:
            if fails:
                raise ValueError("boom")

        runner = AsyncRunner("loop-of-the-test")
        try:
            executor = make_executor(config, runner)
            run = run_job(executor, UnitOfWork("low", raw))
        finally:
            runner.stop()
    assert not isinstance(run.outcome, Malformed)
    if isinstance(run.outcome, Failed):
        assert run.job is not None
        decision = Retrier(config).decide(run.job, run.outcome.error)
        if not isinstance(decision, Done):
            decode(decision.payload)
