"""``chain``, ``group``, ``chord`` and ``Workflow``: jobs that run after others, with their results as arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast, overload

from offsider.core.errors import InvalidOptions
from offsider.core.suggestions import suggest
from offsider.ext.batches.batch import Batch, Event
from offsider.ext.batches.steps import Plan, WaitingSteps
from offsider.ext.batches.store import Lives
from offsider.jobs.enqueuer import JobCall

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.installation import Installation
    from offsider.core.job_id import JobId

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


_Config: TypeAlias = "Config | Installation | None"
_Step: TypeAlias = "JobCall[..., Any] | Group[Any]"


class _Node(NamedTuple):
    call: JobCall[..., Any]
    after: Sequence[str]
    many: bool


class _Flow:
    """What the kinds of workflows share.

    Attributes:
        batch: the batch whose members are the steps; after the push.
    """

    batch: Batch

    def __init__(self, description: str, config: _Config) -> None:
        self._description = description
        self._config = config
        self._nodes: dict[str, _Node] = {}
        self._callbacks: list[tuple[Event, object, Mapping[str, Any] | None]] = []

    def on(self, event: Event, callback: object, options: Mapping[str, Any] | None = None) -> Self:
        """Add a callback to the batch of the workflow; see `Batch.on`."""
        self._callbacks.append((event, callback, options))
        return self

    def _add(self, name: str, call: object, after: Sequence[str], *, many: bool) -> None:
        if not isinstance(call, JobCall):
            raise InvalidOptions(f"step {name!r} of a workflow must be some_job.call(...), got {call!r}")
        if name in self._nodes:
            raise InvalidOptions(f"the workflow has two steps {name!r}")
        self._nodes[name] = _Node(cast("JobCall[..., Any]", call), after, many)

    def _push(self) -> dict[str, JobId[Any]]:
        names, block = self._sorted(), self._block()
        with block:
            return self._pushed(names, block)

    async def _apush(self) -> dict[str, JobId[Any]]:
        names, block = self._sorted(), self._block()
        async with block:
            return self._pushed(names, block)

    def _block(self) -> WaitingSteps:
        batch = self.batch = Batch(description=self._description, config=self._config)
        for callback in self._callbacks:
            batch.on(*callback)
        return WaitingSteps(batch.stored, Lives.of(batch.config).dead)

    def _pushed(self, names: Sequence[str], block: WaitingSteps) -> dict[str, JobId[Any]]:
        followed = {before for node in self._nodes.values() for before in node.after}
        pushed: dict[str, JobId[Any]] = {}
        for name in names:
            call, after, many = self._nodes[name]
            plan = Plan(name, [pushed[before] for before in after], many=many, followed=name in followed)
            pushed[name] = block.push(call, plan)
        return pushed

    def _sorted(self) -> list[str]:
        """Return the names of the steps, each after those it waits for. Raises InvalidOptions."""
        if not self._nodes:
            raise InvalidOptions("the workflow has no steps")
        for name, (_, after, _) in self._nodes.items():
            for before in after:
                if before not in self._nodes:
                    known = suggest(before, self._nodes)
                    raise InvalidOptions(f"step {name!r} waits for {before!r}, which is no step of the workflow{known}")
        try:
            return [*TopologicalSorter({name: node.after for name, node in self._nodes.items()}).static_order()]
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            raise InvalidOptions(f"steps of the workflow wait for each other: {circle}") from None


class Chain(_Flow, Generic[R_co]):
    """Steps that run one after the other; see `chain`."""

    def __init__(self, steps: Sequence[object], description: str, config: _Config) -> None:
        super().__init__(description, config)
        before, many = list[str](), False
        for number, step in enumerate(steps, 1):
            if isinstance(step, Group):
                part = cast("Group[Any]", step)  # type: ignore[redundant-cast]  # not for pyright
                part.check_has_no_batch_of_its_own(config)
                calls = part.calls
                names = [f"{number}.{place}" for place in range(1, len(calls) + 1)]
            else:
                calls, names = cast("list[JobCall[..., Any]]", [step]), [str(number)]
            for name, call in zip(names, calls, strict=True):
                self._add(name, call, before, many=many)
            before, many = names, isinstance(step, Group)
        self._last = before

    def enqueue(self) -> JobId[R_co]:
        """Push the steps, and return the id of the last one; for a final group, the id of its last member.

        Raises:
            InvalidOptions: a step is invalid, or client middleware canceled its push.
            BatchSpansServers: a step is for another server.
            RedisFailure: the steps could not be stored.
        """
        return self._push()[self._last[-1]]

    async def aenqueue(self) -> JobId[R_co]:
        """As `enqueue`, without blocking the event loop."""
        return (await self._apush())[self._last[-1]]


class Group(_Flow, Generic[R]):
    """Jobs that run at the same time; see `group`.

    Attributes:
        calls: the jobs.
    """

    def __init__(self, calls: Sequence[JobCall[..., R]], description: str, config: _Config) -> None:
        super().__init__(description, config)
        if not calls:
            raise InvalidOptions("a group needs at least one job")
        self.calls = calls

    def check_has_no_batch_of_its_own(self, config: _Config) -> None:
        """For `Chain`, whose batch is that of all steps: what was set for this group's batch would be lost."""
        if self._callbacks or self._description or self._config not in (None, config):
            raise InvalidOptions(
                "a group in a chain or chord has no batch of its own: set callbacks, description and config of the "
                "chain or chord instead"
            )

    def enqueue(self) -> list[JobId[R]]:
        """Push the jobs, and return their ids in order. Raises as `Chain.enqueue`."""
        self._plan()
        return [*self._push().values()]

    async def aenqueue(self) -> list[JobId[R]]:
        """As `enqueue`, without blocking the event loop."""
        self._plan()
        return [*(await self._apush()).values()]

    def _plan(self) -> None:
        self._nodes = {}
        for number, call in enumerate(self.calls, 1):
            self._add(str(number), call, (), many=False)


class Workflow(_Flow):
    """Steps that wait for each other in any order without circles.

    ::

        flow = Workflow(description="Nightly")
        flow.step("orders", extract.call("orders"))
        flow.step("users", extract.call("users"))
        flow.step("merge", merge.call(RESULT), after=["orders", "users"])    # a list of two results
        flow.step("mail", mail.call(RESULT, "ann@example.com"), after=["merge"])
        ids = flow.enqueue()
        ids["mail"].result(timeout=60)

    Args:
        description: of its batch, shown on the pages.
        config: by default the configuration of this process.
    """

    def __init__(self, *, description: str = "", config: _Config = None) -> None:
        super().__init__(description, config)

    def step(self, name: str, call: JobCall[..., Any], *, after: Sequence[str] = ()) -> Self:
        """Add a step. Returns the workflow.

        Args:
            name: its name, unique in the workflow.
            call: ``some_job.call(...)``. An argument `RESULT` becomes the result of the step in ``after``; of several,
                the list of their results in this order.
            after: names of the steps that must succeed before it. They may be added later.

        Raises:
            InvalidOptions: the name is taken, or the call is none.
        """
        if isinstance(after, str):
            raise InvalidOptions(f"step {name!r}: after must be a list of names, got {after!r}")
        self._add(name, call, list(dict.fromkeys(after)), many=len(set(after)) > 1)
        return self

    def enqueue(self) -> dict[str, JobId[Any]]:
        """Push the steps, and return their ids by name.

        Raises:
            InvalidOptions: a step waits for one that does not exist, or for itself; or as `Chain.enqueue`.
        """
        return self._push()

    async def aenqueue(self) -> dict[str, JobId[Any]]:
        """As `enqueue`, without blocking the event loop."""
        return await self._apush()


@overload
def chain(last: JobCall[..., R], /, *, description: str = "", config: _Config = None) -> Chain[R]: ...
@overload
def chain(one: _Step, last: JobCall[..., R], /, *, description: str = "", config: _Config = None) -> Chain[R]: ...
@overload
def chain(
    one: _Step, two: _Step, last: JobCall[..., R], /, *, description: str = "", config: _Config = None
) -> Chain[R]: ...
@overload
def chain(
    one: _Step, two: _Step, three: _Step, last: JobCall[..., R], /, *, description: str = "", config: _Config = None
) -> Chain[R]: ...
@overload
def chain(*steps: _Step, description: str = "", config: _Config = None) -> Chain[Any]: ...
def chain(*steps: _Step, description: str = "", config: _Config = None) -> Chain[Any]:
    """Return jobs that run one after the other.

    ::

        chain(load.call(7), clean.call(RESULT), report.call(RESULT, "pdf")).enqueue().result(timeout=60)

    Args:
        steps: ``some_job.call(...)``, or a `group`. An argument `RESULT` becomes the result of the step before, after a
            group the list of its results.
        description: of its batch, shown on the pages.
        config: by default the configuration of this process.

    Raises:
        InvalidOptions: a step is neither, or a group has callbacks, a description or a config of its own.
    """
    return Chain(steps, description, config)


@overload
def group(calls: Iterable[JobCall[..., R]], /, *, description: str = "", config: _Config = None) -> Group[R]: ...
@overload
def group(*calls: JobCall[..., R], description: str = "", config: _Config = None) -> Group[R]: ...
def group(*calls: Any, description: str = "", config: _Config = None) -> Group[Any]:
    """Return jobs that run at the same time, as a batch or as a step of a chain.

    ::

        ids = group(resize.call(path) for path in paths).enqueue()

    Args:
        calls: ``some_job.call(...)``, or one iterable of these.
        description, config: as of `chain`.

    Raises:
        InvalidOptions: there is none.
    """
    given = calls if len(calls) != 1 or isinstance(calls[0], JobCall) else tuple(calls[0])
    return Group(given, description, config)


def chord(jobs: Group[Any], callback: JobCall[..., R], /, *, description: str = "", config: _Config = None) -> Chain[R]:
    """Return a group and a job that runs once all of them have succeeded, with the list of their results, in order.

    ::

        chord(group(count.call(page) for page in pages), add_up.call(RESULT)).enqueue().result(timeout=60)

    The same as ``chain(jobs, callback)``, and raises the same.
    """
    return Chain((jobs, callback), description, config)
