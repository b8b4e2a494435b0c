"""Lines about another job than the running one: written inside of a job, in every format, they name that job alone."""

from __future__ import annotations

import io
import logging
import re
from dataclasses import dataclass
from datetime import timedelta

import pytest

from offsider import Config
from offsider.client import Client
from offsider.client.delivery import Delivery
from offsider.config.hooks import Prepared
from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.core.outcome import Succeeded
from offsider.core.payload import decode, encode, new_jid
from offsider.ext.unique import Unique
from offsider.ext.unique.releases import Releases, held_by
from offsider.inspector import ScheduledSet
from offsider.logs.setup import logger, setup_logging
from offsider.runtime.context import JobContext, running
from offsider.storage import working
from offsider.storage.working import Owner
from offsider.worker.alive.sweeper import PoisonPills
from tests.docs.snippets import ROOT, snippets

STYLES = ("text", "json", "structlog")
OURS = {"class": "Pushing", "args": [], "jid": "a" * 24, "tags": ["blue"], "meta.user": "ann"}
#: A job hands on its correlation id, and is the caller: that is true of the other job as well.
OF_OURS = re.compile(r'(?<!_)(class|jid|queue)"?[=:] ?"?(Pushing|a{24}|ours)|blue|rows')
OTHER = {"class": "Other", "args": [1], "queue": "theirs"}
AGAIN = {"unique_until": "until_executed", "reschedule_once": True}


@pytest.fixture
def config(config):
    config.client.strict_args = "warn"
    config.use(Unique())
    return config


@pytest.fixture(autouse=True)
def untouched_logger():
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


@dataclass
class Inside:
    """A job that does something to others."""

    config: Config
    jid: str = ""

    def push(self, **fields: object) -> str:
        self.jid = new_jid()
        Client(self.config).push({**OTHER, "jid": self.jid, **fields})
        return self.jid

    def stored(self) -> bytes:
        redis = Installation.of(self.config).redis
        raw = redis.call("LINDEX", redis.keys.queue("theirs"), 0)
        self.jid = decode(raw)["jid"]
        return raw


def drops_a_duplicate(inside):
    inside.push(unique_for=60)
    inside.push(unique_for=60)


def pushes_a_large_one(inside):
    inside.push(args=["x" * 1_100_000])


def pushes_what_json_does_not_carry(inside):
    inside.push(args=[(1, 2)])


def kills_one_whose_death_handler_fails(inside):
    inside.config.death_handlers.append(lambda payload, error: 1 / 0)
    inside.push(at=timedelta(hours=1))
    (entry,) = ScheduledSet(inside.config)
    entry.kill()


def has_one_run_again_for_its_duplicates(inside):
    inside.push(**AGAIN)
    payload = decode(inside.stored())
    inside.push(**AGAIN)  # dropped: the line of this is looked for elsewhere
    effect = Releases(Installation.of(inside.config)).effect(JobContext(payload, "theirs"), *held_by(payload))
    effect.done(None, Succeeded())  # as after a lost reply
    inside.stored()


def buries_a_poison_pill(inside):
    identity = "h:1:aaaaaaaaaaaa"
    redis = Installation.of(inside.config).redis
    inside.push()
    (entry,) = working.claim(redis, Owner(identity, "default"), ["theirs"], 1)
    redis.call("SET", redis.keys.fenced(identity), "1 1")
    PoisonPills(inside.config, redis).bury(entry, [identity])


def stores_one_whose_queue_gets_no_name(inside):
    inside.jid = new_jid()
    payload = {**OTHER, "jid": inside.jid}
    delivery = Delivery(Installation.of(inside.config).redis.keys, [Prepared(payload, encode(payload), "theirs", None)])
    delivery.take([RedisRefused("WRONGTYPE"), 1])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "deed, message",
    [
        (drops_a_duplicate, "holds its lock"),
        (pushes_a_large_one, "bytes; pass an id"),
        (pushes_what_json_does_not_carry, "is a tuple"),
        (kills_one_whose_death_handler_fails, "division by zero"),
        (has_one_run_again_for_its_duplicates, "pushed again"),
        (buries_a_poison_pill, "poison pill"),
        (stores_one_whose_queue_gets_no_name, "its queue could not be added"),
    ],
)
def test_a_line_about_another_job_names_that_job_alone(config, deed, message, style):
    stream = io.StringIO()
    config.log.format = "json" if style == "structlog" else style
    handler = setup_logging(config.log, stream)
    if style == "structlog":
        handler.setFormatter(recipe())
    inside = Inside(config)
    with running(JobContext(OURS, "ours", log={"rows": 7})):
        deed(inside)
        logger.warning("a line of the job itself")
    handler.close()

    lines = stream.getvalue().splitlines()
    (line,) = [line for line in lines if message in line and inside.jid in line]
    assert not OF_OURS.search(line), line
    has_queue = deed is not stores_one_whose_queue_gets_no_name
    assert not has_queue or re.search('queue"?[=:] ?"?theirs', line), line
    (own,) = [line for line in lines if "a line of the job itself" in line]
    assert "a" * 24 in own


def recipe() -> logging.Formatter:
    """The formatter that docs/logging.md makes of structlog."""
    texts = [snippet.text for snippet in snippets((ROOT / "docs" / "logging.md").read_text())]
    (text,) = [text for text in texts if "import structlog" in text]
    made: dict[str, object] = {"Config": Config}
    exec(text, made)
    formatter = made["formatter"]
    assert isinstance(formatter, logging.Formatter)
    return formatter
