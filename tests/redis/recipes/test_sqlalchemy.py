"""The recipe of docs/middleware-and-events.md for SQLAlchemy, as it is printed there."""

from __future__ import annotations

import threading

import pytest

from offsider import Config, job
from offsider.config.default import set_default_config
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker
from tests.docs.snippets import ROOT, snippets

PAGE = ROOT / "docs" / "middleware-and-events.md"


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    before = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(before)


@pytest.fixture
def recipes(config) -> dict[str, object]:
    names: dict[str, object] = {}
    for snippet in snippets(PAGE.read_text()):
        if snippet.language == "python" and not snippet.word:
            exec(snippet.text, names)
    return names


def test_each_job_has_a_session_of_its_own_and_gives_its_connection_back(config, recipes):
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import QueuePool

    engine = create_engine("sqlite://", poolclass=QueuePool, connect_args={"check_same_thread": False})
    session = recipes["Session"]
    session.configure(bind=engine)
    seen: list[object] = []
    enough = threading.Event()

    @job(retry=False)
    def read() -> None:
        session.execute(text("select 1"))
        seen.append(session())
        if len(seen) == 3:
            enough.set()
        if len(seen) == 2:
            raise ValueError("a session that failed must not reach the next job")

    recipes["configure_with_sqlalchemy"](config)
    config.worker.concurrency = 1
    with EmbeddedWorker(config):
        for _ in range(3):
            read.enqueue()
        assert enough.wait(20)

    assert len({id(one) for one in seen}) == 3
    assert engine.pool.checkedout() == 0
    engine.dispose()
