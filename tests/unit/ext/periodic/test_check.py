"""Mistakes of a register are found before its first tick."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from offsider import Config, job
from offsider.core.errors import ConfigurationError
from offsider.ext.periodic import Periodic
from offsider.ext.periodic.entry import examine

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def periodic():
    return Periodic()


def problems(periodic: Periodic, **options) -> list[str]:
    config = Config()
    config.use(periodic)
    return [problem for _, problem in examine(config, **options)]


def test_an_unknown_job_is_reported_unless_foreign_jobs_are_allowed(periodic):
    @job(name="shop.clean")
    def clean() -> None: ...

    periodic.register("@daily", "shop.cleen")
    assert problems(periodic) == ["job shop.cleen is not declared here (did you mean 'shop.clean'?)"]
    assert problems(periodic, foreign=True) == [""]


def test_a_worker_warns_about_a_job_that_it_does_not_declare(periodic, caplog):
    periodic.register("@daily", "shop.cleen")
    config = Config()
    config.use(periodic)
    for factory in config.services:
        factory(config)
    assert caplog.messages == ["periodic job 'shop.cleen': job shop.cleen is not declared here"]


def test_keyword_arguments_of_a_foreign_job_are_reported(periodic):
    periodic.register("@daily", "HardJob", kwargs={"a": 1})
    assert "takes no keyword arguments" in problems(periodic, foreign=True)[0]


def test_an_invalid_declaration_is_reported(periodic):
    @job(name="shop.clean", retry=-1)
    def clean() -> None: ...

    periodic.register("@daily", clean)
    assert "retry" in problems(periodic)[0]


def test_jobs_of_every_server_are_checked(periodic):
    @job(name="shop.clean", urgency="throttled")
    def clean() -> None: ...

    config = Config()
    config.add_server("bulk", url="redis://bulk/0")
    config.routing.rules = [["urgency=throttled", "bulk", "bulk"]]
    config.use(periodic)
    periodic.register("@daily", clean)
    periodic.register("@daily", "shop.nope", server="bulk")
    reported = [(entry.name, problem) for entry, problem in examine(config)]
    assert reported == [("shop.clean", ""), ("shop.nope", "job shop.nope is not declared here")]


@dataclass
class Order:
    number: int


@pytest.mark.parametrize(
    "codec,args,kwargs,says",
    [
        (None, [], {}, "shop.clean: missing a required argument: 'order'"),
        (None, [1], {"hard": True, "dry": 1}, "shop.clean: got an unexpected keyword argument 'dry'"),
        ("annotations", [{"number": "x"}], {}, "shop.clean: argument 'order' does not fit its annotation Order"),
    ],
)
def test_no_worker_starts_with_arguments_that_do_not_fit_the_job(periodic, codec, args, kwargs, says):
    @job(name="shop.clean", codec=codec)
    def clean(order: Order, *, hard: bool = False) -> None: ...

    config = Config()
    config.use(periodic)
    periodic.register("@daily", clean, name="nightly", args=args, kwargs=kwargs)
    with pytest.raises(ConfigurationError, match=f"^periodic job 'nightly': {says}"):
        [make(config) for make in config.services]


def test_no_worker_starts_with_a_periodic_job_for_an_unknown_server(periodic):
    config = Config()
    config.use(periodic)
    periodic.register("@daily", "HardJob", server="blk", name="hard")
    with pytest.raises(ConfigurationError, match="periodic job 'hard': there is no server 'blk'"):
        [make(config) for make in config.services]
