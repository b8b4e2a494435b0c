"""Mistakes of a register are found before its first tick."""

from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.ext.periodic import Periodic
from offsider.ext.periodic.examination import examine
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def forgotten_jobs():
    with registry.isolated():
        yield


@pytest.fixture
def periodic():
    return Periodic()


def problems(periodic: Periodic, **options) -> list[str]:
    config = Config()
    config.use(periodic)
    return [problem for _, problem in examine(config, **options)]


def test_a_right_register_has_none(periodic):
    @job(name="shop.clean")
    def clean(days: int, *, hard: bool = False) -> None: ...

    periodic.register("@daily", clean, args=[3], kwargs={"hard": True})
    assert problems(periodic) == [""]


def test_arguments_that_do_not_fit_are_told(periodic):
    @job(name="shop.clean")
    def clean(days: int) -> None: ...

    periodic.register("@daily", clean)
    assert "days" in problems(periodic)[0]


def test_an_unknown_job_is_told_unless_it_lives_elsewhere(periodic):
    @job(name="shop.clean")
    def clean() -> None: ...

    periodic.register("@daily", "shop.cleen")
    assert problems(periodic) == ["no job shop.cleen is declared here (did you mean 'shop.clean'?)"]
    assert problems(periodic, foreign=True) == [""]


def test_keyword_arguments_do_not_reach_a_job_elsewhere(periodic):
    periodic.register("@daily", "HardJob", kwargs={"a": 1})
    assert "by name do not reach" in problems(periodic, foreign=True)[0]


def test_a_wrong_declaration_is_told(periodic):
    @job(name="shop.clean", retry=-1)
    def clean() -> None: ...

    periodic.register("@daily", clean)
    assert "retry" in problems(periodic)[0]
