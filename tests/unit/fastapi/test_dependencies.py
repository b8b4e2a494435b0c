"""Dependencies of FastAPI in jobs: solved for each run, closed after it, absent from the payload."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated

import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Header, Request, Security
from fastapi.security import OAuth2PasswordBearer, SecurityScopes

from offsider import Config, InvalidArguments, InvalidJob, Job, current_job, job, testing
from offsider.config.default import set_default_config
from offsider.fastapi import dependencies, dependency_overrides, inject, lifespan
from offsider.jobs import registry

events: list[object] = []


def session():
    events.append("open")
    try:
        yield "session"
        events.append("commit")
    except BaseException as error:
        events.append(f"roll back {type(error).__name__}")
        raise
    finally:
        events.append("close")


async def async_session():
    events.append("open")
    try:
        yield "session"
        events.append("commit")
    except BaseException as error:
        events.append(f"roll back {type(error).__name__}")
        raise
    finally:
        events.append("close")


def repository(session=Depends(session)):  # noqa: B008
    return f"repository of {session}"


@pytest.fixture(scope="module", autouse=True)
def the_loop_runs():
    """Its thread lives until the process ends, so it starts before a test counts threads."""
    dependencies._running_loop()


@pytest.fixture(autouse=True)
def own_jobs():
    events.clear()
    before = set_default_config(Config())
    with registry.isolated():
        yield
    set_default_config(before)
    dependency_overrides.clear()


def declared(kind, dependency):
    """A job of either kind that notes its arguments, and fails on demand."""

    def note(number, session, error):
        events.append((number, session))
        if error:
            raise {"ValueError": ValueError, "SystemExit": SystemExit}[error]
        return number

    if kind == "plain":

        @job(retry=False)
        @inject
        def work(number: int, session: str = Depends(dependency), error: str = "") -> int:
            return note(number, session, error)
    else:

        @job(retry=False)
        @inject
        async def work(number: int, session: str = Depends(dependency), error: str = "") -> int:
            await asyncio.sleep(0)
            return note(number, session, error)

    return work


both = pytest.mark.parametrize("kind", ["plain", "async"])
all_four = pytest.mark.parametrize("dependency", [session, async_session])


@both
@all_four
def test_a_generator_continues_after_a_success(kind, dependency):
    assert declared(kind, dependency).run_inline(7) == 7
    assert events == ["open", (7, "session"), "commit", "close"]


@both
@all_four
def test_a_generator_receives_the_error_of_the_job(kind, dependency):
    with pytest.raises(ValueError):
        declared(kind, dependency).run_inline(7, "ValueError")
    assert events == ["open", (7, "session"), "roll back ValueError", "close"]


@all_four
def test_the_exit_of_a_plain_job_does_not_end_the_loop_of_its_dependencies(dependency):
    with pytest.raises(SystemExit):
        declared("plain", dependency).run_inline(7, "SystemExit")
    assert declared("plain", dependency).run_inline(8) == 8
    # In FastAPI 0.128 and before, a generator that is no coroutine is closed instead.
    assert events[2] in {"roll back SystemExit", "roll back GeneratorExit"}
    assert [*events[:2], events[3]] == ["open", (7, "session"), "close"]


@both
def test_a_generator_that_suppresses_the_error_does_not_make_the_job_succeed(kind):
    def forgiving():
        try:
            yield "session"
        except ValueError:
            events.append("forgiven")

    with pytest.raises(ValueError):
        declared(kind, forgiving).run_inline(7, "ValueError")
    assert events[-1] == "forgiven"


def without_commit():
    yield "session"
    raise OSError("of the dependency")


def without_rollback():
    try:
        yield "session"
    except ValueError as error:
        raise OSError("of the dependency") from error


def without_database():
    raise OSError("of the dependency")


@both
@pytest.mark.parametrize(
    "dependency, error, ran",
    [(without_commit, "", True), (without_rollback, "ValueError", True), (without_database, "", False)],
)
def test_an_error_of_a_dependency_fails_the_job(kind, dependency, error, ran):
    with pytest.raises(OSError, match="of the dependency"):
        declared(kind, dependency).run_inline(7, error)
    assert bool(events) == ran


def test_a_dependency_is_solved_once_per_run_and_again_for_the_next():
    @job
    @inject
    def work(
        direct: Annotated[str, Depends(session)], number: int, through: Annotated[str, Depends(repository)]
    ) -> None:
        events.append((direct, number, through))

    work.run_inline(1)
    assert events == ["open", ("session", 1, "repository of session"), "commit", "close"]
    work.run_inline(2)
    assert events[4:6] == ["open", ("session", 2, "repository of session")]


def test_the_payload_and_the_signature_have_no_dependencies():
    @job
    @inject
    def work(a: int, session: str = Depends(session), b: int = 2, *rest: int, c: int, d: int = 4) -> tuple:
        return a, session, b, rest, c, d

    with testing.fake() as enqueued:
        work.enqueue(1, 5, 6, 7, c=8)
        work.enqueue(1, c=3)
    assert [(each.payload["args"], each.payload["kwargs"]) for each in enqueued.jobs] == [
        ([1, 5, 6, 7], {"c": 8}),
        ([1], {"c": 3}),
    ]
    assert str(work.declared.signature).endswith(
        "(a: 'int', b: 'int' = 2, *rest: 'int', c: 'int', d: 'int' = 4) -> 'tuple'"
    )
    assert work.run_inline(1, 5, 6, 7, c=8) == (1, "session", 5, (6, 7), 8, 4)
    assert work.run_inline(1, c=3) == (1, "session", 2, (), 3, 4)


def test_a_push_with_a_dependency_is_refused():
    with testing.fake(), pytest.raises(InvalidArguments, match="unexpected keyword argument 'session'"):
        declared("plain", session).enqueue(1, session="mine")


@both
def test_a_direct_call_may_pass_the_dependencies_by_name(kind):
    result = declared(kind, session)(1, session="mine")
    assert (asyncio.run(result) if kind == "async" else result) == 1
    assert events == [(1, "mine")]


def test_a_plain_job_stays_in_its_thread_and_dependencies_see_the_job():
    seen = []

    async def who():
        return current_job().jid

    def where():
        return threading.get_ident(), current_job().jid

    @job
    @inject
    def work(first: str = Depends(who), second: tuple = Depends(where)) -> None:
        seen.append((first, second, threading.get_ident(), current_job().jid))

    work.run_inline()
    ((first, (thread, second), own_thread, jid),) = seen
    assert first == second == jid
    assert own_thread == threading.get_ident() != thread


def test_async_dependencies_of_plain_jobs_share_one_loop():
    async def loop():
        return id(asyncio.get_running_loop())

    @job
    @inject
    def work(loop: int = Depends(loop)) -> int:
        return loop

    assert work.run_inline() == work.run_inline()


def test_a_class_job_has_dependencies_too():
    class Work(Job):
        @inject
        def perform(self, number: int, session: str = Depends(session)) -> tuple:
            return self.jid == current_job().jid, number, session

    assert Work.run_inline(7) == (True, 7, "session")


@both
def test_overrides_replace_dependencies(kind):
    dependency_overrides[session] = lambda: "fake"
    declared(kind, session).run_inline(1)
    assert events == [(1, "fake")]


def test_overrides_of_an_application_apply_while_its_lifespan_runs():
    app = FastAPI()
    app.dependency_overrides[session] = lambda: "of the application"

    async def run():
        async with lifespan()(app):
            await asyncio.to_thread(declared("plain", session).run_inline, 1)

    with testing.fake():
        asyncio.run(run())
    declared("plain", session).run_inline(2)
    assert events == [(1, "of the application"), "open", (2, "session"), "commit", "close"]


def test_a_dependency_with_defaults_and_security_scopes_needs_no_request():
    def settings(scopes: SecurityScopes, region: str = "eu"):
        return scopes.scopes, region

    @job
    @inject
    def work(settings: tuple = Security(settings, scopes=["mails"])) -> tuple:
        return settings

    assert work.run_inline() == (["mails"], "eu")


# --------------------------------------------------------------------------------------- refused
def from_header(x_user: Annotated[str, Header()]): ...
def from_query(page: int): ...
def from_request(request: Request): ...
def in_background(tasks: BackgroundTasks): ...
def indirectly(user=Depends(from_request)): ...  # noqa: B008


@pytest.mark.parametrize(
    "dependency,reason",
    [
        (from_header, "from_header reads x_user from the header"),
        (from_query, "from_query reads page from the query"),
        (from_request, "from_request has the parameter request for the request"),
        (in_background, "in_background has the parameter tasks for the background_tasks"),
        (indirectly, "from_request has the parameter request"),
        (OAuth2PasswordBearer("token"), "OAuth2PasswordBearer.* has the parameter request"),
    ],
)
def test_a_dependency_that_needs_a_request_is_refused_at_the_declaration(dependency, reason):
    with pytest.raises(InvalidJob, match=f"{reason}.*, and a job has no request: pass the value as an argument"):
        declared("plain", dependency)


def test_an_override_that_needs_a_request_fails_the_run():
    dependency_overrides[session] = from_query
    with pytest.raises(InvalidJob, match=r"a dependency needs query\.page of a request"):
        declared("plain", session).run_inline(1)


def test_a_job_without_dependencies_is_refused():
    with pytest.raises(InvalidJob, match=r"work: @inject found no parameter with Depends"):

        @inject
        def work(number: int) -> None: ...


def test_a_generator_is_refused():
    with pytest.raises(InvalidJob, match="contains yield"):

        @inject
        def work(session: str = Depends(session)):
            yield session


def test_the_wrong_order_of_the_decorators_is_refused():
    with pytest.raises(InvalidJob, match="place @inject below @job"):

        @inject
        @job
        def work(number: int, session: str = "") -> None: ...


def test_a_job_with_dependencies_but_without_inject_is_refused():
    with pytest.raises(InvalidJob, match=r"work: the parameter session is a dependency.*place @inject"):

        @job
        def work(number: int, session: str = Depends(session)) -> None: ...
