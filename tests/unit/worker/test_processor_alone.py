"""A thread with a suspect job runs it alone or sends it to the tail of its queue (rule 6)."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from offsider.client import Client
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import NotStarted, Succeeded
from offsider.worker.processor import CapsuleParts, Processor
from offsider.worker.unit_of_work import Run, UnitOfWork
from offsider.worker.work_state import WorkState


class Isolation:
    """Suspects every job, and grants isolation as the test decides."""

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

    def settle(self, unit: UnitOfWork, run: Any) -> None:
        """As the settlement does."""
        if run.outcome == Succeeded():  # of the stub of an executor
            self.steps.append("settle")
            return
        if self.error is not None:
            raise self.error
        assert run.outcome == NotStarted("queue", name="not alone")
        self.steps.append("put last")


class Scene:
    """A processor with one job; ``steps`` records the order of calls."""

    def __init__(self, config, isolation: Isolation) -> None:
        self.steps = isolation.steps
        self.deaths: list = []
        units = [UnitOfWork("default", b"job")]
        parts = CapsuleParts(
            client=Client.of(config),
            clock=config.clock,
            fetcher=_stub(retrieve=lambda: units.pop() if units else None),
            settlement=_stub(settle=isolation.settle),
            work_state=WorkState(),
            async_runner=_stub(wait_for=lambda unit: None),
            rescue=_stub(),
            chunks=_stub(),
            isolation=isolation,  # type: ignore[arg-type]
        )
        executor = _stub(run=self._run)
        died = lambda processor, error: self.deaths.append((processor, error))  # noqa: E731
        self.processor = Processor("processor-of-the-test", parts, executor, died)

    def _run(self, unit: UnitOfWork, started_at: float) -> Run:
        self.steps.append("run")
        return Run(None, Succeeded(), started_at, 0.0, None)


def _stub(**methods: Any) -> Any:
    return SimpleNamespace(**methods)


def run(scene: Scene) -> None:
    scene.processor.start()
    assert scene.processor.join(10)


@pytest.mark.parametrize(
    "granted, steps", [(True, ["run", "settle"]), (False, ["put last"])], ids=["alone", "cannot run alone"]
)
def test_a_suspect_is_settled_or_put_last_before_the_others_resume(config, granted, steps):
    played = Scene(config, Isolation([], granted=granted))
    run(played)
    assert played.steps == ["alone", *steps, "others again"]
    assert played.processor.unit is None
    assert played.deaths == []


def test_a_suspect_that_could_not_be_put_anywhere_is_left_for_the_manager(config):
    isolation = Isolation([], granted=False)
    isolation.error = RedisUnavailable("away")
    played = Scene(config, isolation)
    run(played)
    ((processor, error),) = played.deaths
    assert error is isolation.error
    assert processor.unit is not None
    assert not processor.unit.settled


@pytest.mark.parametrize("granted", [True, False])
def test_a_job_that_is_not_a_suspect_starts_immediately(config, granted):
    isolation = Isolation([], granted=granted)
    isolation.is_suspect = lambda unit: False  # type: ignore[method-assign]
    played = Scene(config, isolation)
    run(played)
    assert played.steps == ["run", "settle"]
