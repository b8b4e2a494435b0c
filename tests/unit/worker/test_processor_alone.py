"""A thread with a suspect: it runs alone, or goes to the far end (rule 6)."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.worker.processor import Processor
from offsider.worker.settlement import Settled
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import WorkState


class Solitude:
    """Suspects every job, and grants what the test says."""

    def __init__(self, steps: list[str], *, granted: bool) -> None:
        self.steps, self.granted = steps, granted
        self.error: BaseException | None = None

    def is_suspect(self, unit: UnitOfWork) -> bool:
        return True

    @contextmanager
    def alone(self, unit: UnitOfWork):
        self.steps.append("alone")
        yield self.granted
        self.steps.append("others again")

    def put_last(self, unit: UnitOfWork) -> None:
        if self.error is not None:
            raise self.error
        self.steps.append("put last")


class Scene:
    """A processor that gets one job; ``steps`` tells in which order things happened."""

    def __init__(self, config, solitude: Solitude) -> None:
        self.steps = solitude.steps
        self.deaths: list = []
        units = [UnitOfWork("default", b"job")]
        self.processor = Processor(
            config=config,
            capsule=config.capsules["default"],
            fetcher=_stub(retrieve=lambda: units.pop() if units else None),
            executor=_stub(run=lambda unit: self.steps.append("run")),
            settlement=_stub(settle=lambda unit, run: self.steps.append("settle") or Settled.WRITTEN),
            work_state=WorkState(),
            reporter=_stub(settled=lambda unit, run, died: None),
            async_runner=_stub(),
            name="processor-of-the-test",
            died=lambda processor, error: self.deaths.append((processor, error)),
            solitude=solitude,  # type: ignore[arg-type]
        )


def _stub(**methods: Any) -> Any:
    return SimpleNamespace(**methods)


def run(scene: Scene) -> None:
    scene.processor.start()
    assert scene.processor.join(10)


def test_a_suspect_is_run_and_settled_before_the_others_go_on(config):
    played = Scene(config, Solitude([], granted=True))
    run(played)
    assert played.steps == ["alone", "run", "settle", "others again"]
    assert played.processor.unit is None


def test_a_suspect_that_cannot_be_alone_is_put_last_before_the_others_go_on(config):
    played = Scene(config, Solitude([], granted=False))
    run(played)
    assert played.steps == ["alone", "put last", "others again"]
    assert played.processor.unit is None
    assert played.deaths == []


def test_a_suspect_that_could_not_be_put_anywhere_is_left_for_the_manager(config):
    solitude = Solitude([], granted=False)
    solitude.error = RedisUnavailable("away")
    played = Scene(config, solitude)
    run(played)
    ((processor, error),) = played.deaths
    assert error is solitude.error
    assert processor.unit is not None
    assert not processor.unit.settled


@pytest.mark.parametrize("granted", [True, False])
def test_whoever_is_no_suspect_waits_for_nobody(config, granted):
    solitude = Solitude([], granted=granted)
    solitude.is_suspect = lambda unit: False  # type: ignore[method-assign]
    played = Scene(config, solitude)
    run(played)
    assert played.steps == ["run", "settle"]
