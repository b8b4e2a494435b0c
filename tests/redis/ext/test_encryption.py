"""Encrypted jobs: what is stored, what a run sees, rotation, and all that would show the plain text."""

from __future__ import annotations

import json
import logging
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from offsider import (
    Client,
    ConfigurationError,
    DecryptionFailed,
    InvalidArguments,
    InvalidOptions,
    JobId,
    PayloadTooLarge,
    RedisUnavailable,
    job,
    resumable,
    step,
)
from offsider.cli.main import main
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.batches import RESULT, Batches, Workflow
from offsider.ext.encryption import Encryption
from offsider.ext.profiles import Profiles
from offsider.ext.results import Results
from offsider.ext.unique import Unique
from offsider.inspector import DeadSet, Queue, RetrySet, ScheduledSet
from offsider.jobs import registry
from offsider.storage import steps
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from offsider.worker.launcher import Launcher
from tests.waiting import wait_for

MARKER = "4111 1111 1111 1111"
KEYS = {"old": Encryption.new_key(), "new": Encryption.new_key()}
DIGEST = Encryption.new_key()

pytestmark = pytest.mark.usefixtures("default_config")


@pytest.fixture
def encrypted(config) -> Config:
    config.use(Encryption(KEYS, current="new", digest_key=DIGEST))
    config.worker.concurrency = 1
    return config


@pytest.fixture
def work(config):
    """Starts a worker, with the keys of another configuration if it is given, which stops after the test."""
    launchers: list[Launcher] = []

    def work(using: Config = config) -> None:
        launchers.append(Launcher(using))
        launchers[-1].start()

    yield work
    for launcher in launchers:
        launcher.stop()


def with_keys(config: Config, keys: dict[str, str] | None, current: str = "") -> Config:
    """Another configuration of the same server, with these keys or without the extension."""
    made = Config()
    made.redis.url, made.worker.concurrency = config.redis.url, 1
    if keys is not None:
        made.use(Encryption(keys, current=current))
    return made


def everything(raw_redis) -> bytes:
    """All bytes of the server."""
    return b"".join(key + (raw_redis.dump(key) or b"") for key in raw_redis.scan_iter())


# ------------------------------------------------------------------------------------- pushes


def test_the_last_argument_is_encrypted_once_and_the_run_sees_it(encrypted, raw_redis, work):
    seen: list[Any] = []

    @job(name="Pay", encrypt=True)
    def pay(order: int, card: dict[str, str]) -> None:
        seen.append((order, card))

    pay.enqueue(7, {"card": MARKER})
    pay.enqueue_in(3600, 8, {"card": MARKER})
    pay.enqueue_many([(9, {"card": MARKER}), (10, {"card": MARKER})])
    (first, *_) = (json.loads(raw) for raw in raw_redis.lrange("queue:default", -1, -1))
    assert (first["encrypt"], first["args"][0], first["args"][1].startswith("offsider:new:")) == (True, 7, True)
    assert MARKER.encode() not in everything(raw_redis)
    (entry,) = ScheduledSet(encrypted)
    entry.add_to_queue()
    assert MARKER.encode() not in everything(raw_redis)
    work()
    wait_for(lambda: len(seen) == 4)
    assert sorted(order for order, _ in seen) == [7, 8, 9, 10]
    assert all(card == {"card": MARKER} for _, card in seen)


def test_a_job_that_runs_inline_sees_its_argument(encrypted):
    @job(name="Pay", encrypt=True)
    def pay(card: str) -> str:
        return card

    assert pay.run_inline(MARKER) == MARKER


def test_nothing_to_encrypt_or_no_extension_is_an_error_at_the_push(encrypted):
    @job(name="Pay", encrypt=True)
    def pay(*, card: str = "") -> None: ...

    with pytest.raises(InvalidArguments, match="Pay: encrypt=True needs a positional argument"):
        pay.enqueue(card=MARKER)

    @job(name="Maybe", encrypt=True)
    def maybe(order: int, card: str, note: str = "") -> None: ...

    @job(name="Many", encrypt=True)
    def many(*cards: str) -> None: ...

    for each in (maybe, many):
        with pytest.raises(InvalidOptions, match="so none by position can be left out"):
            each.enqueue(1, MARKER)
    with pytest.raises(InvalidOptions, match=r"imported from offsider\.ext\.encryption"):
        pay.via(Client(Config())).enqueue(card=MARKER)


def test_what_cannot_be_encrypted_fails_before_the_commit_and_not_after_it(encrypted):
    encrypted.after_commit = lambda push: True
    encrypted.client.payload_limit_bytes = 1_000

    @job(name="Pay", encrypt=True)
    def pay(*cards: str) -> None: ...

    @job(name="Long", encrypt=True)
    def long(text: str) -> None: ...

    for each, error in ((pay, InvalidOptions), (long, PayloadTooLarge)):
        with pytest.raises(error):
            each.using(after_commit=True).enqueue("x" * 700)


# ------------------------------------------------------------------------------------- keys


def test_keys_rotate(encrypted, raw_redis, work):
    seen: list[str] = []

    @job(name="Pay", encrypt=True)
    def pay(card: str) -> None:
        seen.append(card)

    pay.via(Client(with_keys(encrypted, {"old": KEYS["old"]}, "old"))).enqueue("a")
    pay.enqueue("b")
    work()
    wait_for(lambda: seen == ["a", "b"])


@pytest.mark.parametrize(
    "keys, error",
    [
        ({"new": KEYS["new"]}, "encrypted with the key 'old', which Encryption(keys=…) of this worker does not have"),
        ({"new": KEYS["new"], "old": KEYS["new"]}, "cannot be decrypted with the key 'old'"),
    ],
)
def test_a_job_whose_key_is_missing_or_another_one_is_retried_with_one_clear_error(encrypted, work, keys, error):
    @job(name="Pay", encrypt=True)
    def pay(card: str) -> None: ...

    pay.via(Client(with_keys(encrypted, KEYS, "old"))).enqueue(MARKER)
    work(with_keys(encrypted, keys, "new"))
    (entry,) = wait_for(lambda: [*RetrySet(encrypted)])
    assert error in entry.error_message
    assert MARKER not in entry.error_message


def test_an_argument_belongs_to_its_job(encrypted):
    encryption = encrypted.encryption
    payload = {"class": "Pay", "jid": "1", "args": [], "encrypt": True}
    sealed = encryption.seal_value(MARKER, payload)
    assert encryption.open_value(sealed, payload) == MARKER
    for other in ({"jid": "2"}, {"class": "Refund"}):
        with pytest.raises(DecryptionFailed, match="belongs to another job"):
            encryption.open_value(sealed, payload | other)
    with pytest.raises(DecryptionFailed, match="was changed"):
        encryption.open_value(sealed[:-4] + "AAAA", payload)
    with pytest.raises(DecryptionFailed, match="was changed"):
        encryption.open_value("offsider:new:%", payload)
    for plain in (MARKER, 7, None):
        with pytest.raises(DecryptionFailed, match="is not encrypted, but the job has encrypt"):
            encryption.open_value(plain, payload)


def test_a_worker_without_the_extension_retries_the_job(encrypted, raw_redis, work):
    @job(name="Pay")
    def pay(card: str) -> None: ...

    pay.using(encrypt=True).enqueue(MARKER)
    work(with_keys(encrypted, None))
    (entry,) = wait_for(lambda: [*RetrySet(encrypted)])
    assert "this worker has no extension Encryption" in entry.error_message


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Encryption({"a": b"short"}, current="a"), r"keys\['a'\] must have 32 bytes"),
        (lambda: Encryption({"a": "no base64!"}, current="a"), "must have 32 bytes"),
        (lambda: Encryption({"a:b": KEYS["new"]}, current="a:b"), "is no id of a key"),
        (lambda: Encryption(KEYS, current="b"), "'b'.* is not among its keys: old, new"),
        (lambda: Encryption(KEYS, current="new", digest_key="x"), "digest_key must have 32 bytes"),
    ],
)
def test_bad_keys_are_errors(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_an_option_that_is_no_switch_is_an_error(encrypted):
    @job(name="Pay")
    def pay(card: str) -> None: ...

    with pytest.raises(InvalidOptions, match="encrypt must be True or False"):
        pay.using(encrypt="yes").enqueue(MARKER)  # type: ignore[typeddict-item]


# ------------------------------------------------------------------------------------- with other features


def test_unique_jobs_need_a_key_for_their_digest_and_are_not_debounced(encrypted, raw_redis):
    encrypted.use(Unique())

    @job(name="Pay", encrypt=True, unique_for=60)
    def pay(card: str) -> None: ...

    assert pay.enqueue(MARKER)
    assert not pay.enqueue(MARKER)
    assert pay.enqueue("other")
    encrypted.encryption = Encryption(KEYS, current="new")
    with pytest.raises(InvalidOptions, match="needs Encryption"):
        pay.enqueue(MARKER)
    with pytest.raises(InvalidOptions, match="debounce and encrypt exclude each other"):
        pay.using(unique_for=False, debounce=5).enqueue(MARKER)


def test_callbacks_of_the_job_see_the_argument(encrypted, work):
    seen: list[Any] = []

    @job(
        name="Pay",
        encrypt=True,
        retry=0,
        on_exhausted=lambda payload, error: seen.append(payload["args"]),
    )
    def pay(card: str) -> None:
        raise ValueError("on purpose")

    pay.enqueue(MARKER)
    work()
    (entry,) = wait_for(lambda: [*DeadSet(encrypted)])
    assert seen == [[MARKER]]
    assert MARKER.encode() not in entry.raw


def test_results_steps_and_cursors_are_encrypted(encrypted, raw_redis, work):
    encrypted.use(Results())

    @job(name="Pay", encrypt=True, keep_result=600, retry=0)
    def pay(card: str) -> str:
        step("charge", lambda: MARKER)
        for each in resumable(lambda start: [MARKER, "last"], cursor=lambda each: each):
            if each == "last":
                assert MARKER.encode() not in everything(raw_redis)
        return card

    jid = pay.enqueue(MARKER)
    work()
    assert jid.result(timeout=30) == MARKER
    assert MARKER.encode() not in everything(raw_redis)


def test_steps_and_cursors_are_read_again(encrypted, raw_redis, work):
    seen: list[Any] = []

    @job(name="Pay", encrypt=True, retry_in=lambda count, error, payload: 0.01)
    def pay(card: str) -> None:
        seen.append(step("charge", lambda: MARKER))
        for each in resumable(lambda start: ["a", "b"][["a", "b"].index(start or "a") :], cursor=lambda each: each):
            seen.append(each)
            if len(seen) == 3:
                raise ValueError("on purpose")

    jid = pay.enqueue(MARKER)
    work()
    wait_for(lambda: len(seen) == 5, 60)
    assert seen == [MARKER, "a", "b", MARKER, "b"]
    wait_for(lambda: not steps.read(Installation.of(encrypted).redis, jid).steps)


def test_results_of_encrypted_steps_are_not_passed_on(encrypted):
    encrypted.use(Batches())

    @job(name="Pay", encrypt=True)
    def pay(card: str) -> str:
        return card

    @job(name="Tell")
    def tell(what: str) -> None: ...

    for first, second in ((pay, tell), (tell, pay)):
        flow = Workflow()
        flow.step("first", first.call(MARKER))
        flow.step("second", second.call(RESULT), after=["first"])
        with pytest.raises(InvalidOptions, match="uses RESULT, which the server puts in and cannot encrypt"):
            flow.enqueue()


# ------------------------------------------------------------------------------------- nobody shows it


def test_no_error_handler_gets_the_plain_text_from_middleware_inside(encrypted, work, monkeypatch):
    contexts: list[str] = []
    encrypted.error_handlers.append(lambda _, context: contexts.append(str(context)))
    encrypted.use(Profiles())
    encrypted.use(Unique())
    for function in ("offsider.ext.profiles._store", "offsider.ext.unique.locks.release"):
        monkeypatch.setattr(function, Mock(side_effect=RedisUnavailable("away")))

    @job(name="Pay", encrypt=True, unique_for=60, unique_until="start")
    def pay(card: str) -> None: ...

    pay.using(profile="ann").enqueue(MARKER)
    work()
    wait_for(lambda: len(contexts) == 2)
    assert MARKER not in str(contexts)


def test_no_page_command_or_log_shows_the_plain_text(encrypted, raw_redis, redis_url, work, caplog):
    caplog.set_level(logging.DEBUG)
    encrypted.log.arguments = True
    encrypted.use(Results())

    @job(name="Pay", encrypt=True, track="arguments")
    def pay(order: int, card: str) -> None:
        if order == 1:
            raise ValueError("on purpose")

    jids: list[JobId[Any]] = [pay.enqueue(number, MARKER) for number in (1, 2)]
    work()
    wait_for(lambda: [*RetrySet(encrypted)])
    wait_for(lambda: not [*Queue("default", encrypted)])
    pay.using(queue="other").enqueue(3, MARKER)
    app = WebApp(WebOptions({"main": Installation.of(encrypted)}))
    paths = ["/", "/jobs?where=all", "/jobs?where=retry", "/jobs?where=other", "/error", "/log", "/class/Pay"]
    shown = ""
    for path in [*paths, *(f"/job/{jid}" for jid in jids)]:
        place, _, query = path.partition("?")
        headers = {"host": "localhost", "accept": "text/html"}
        shown += app.respond(Request("GET", place, query=query, headers=headers)).body.decode()
    for words in (["why", jids[0]], ["jobs", "--where", "retry", "--json"]):
        shown += CliRunner().invoke(main, words, env={"OFFSIDER_REDIS_URL": redis_url}).output
    assert "[encrypted data]" in shown
    assert MARKER not in shown
    assert MARKER not in caplog.text
    assert MARKER.encode() not in everything(raw_redis)
    assert registry.peek("Pay") is not None
