"""The system check of a project without a settings module, and the hints of the others."""

from __future__ import annotations

import pytest

from tests import django_project

django_project.set_up()


@pytest.fixture
def check(monkeypatch, tmp_path):
    from offsider.django.checks import check_settings

    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    monkeypatch.chdir(tmp_path)
    return check_settings


def test_without_a_settings_module_the_table_is_not_read(check):
    (found,) = check()
    assert (found.id, found.msg) == (
        "offsider.W001",
        "OFFSIDER is not read, because DJANGO_SETTINGS_MODULE is not set.",
    )


def test_the_hint_about_a_wrong_value_shows_an_example(check, monkeypatch):
    monkeypatch.setenv("OFFSIDER_WORKER_CONCURRENCY", "many")
    (found,) = check()
    assert (found.id, "docs/" in found.hint) == ("offsider.E001", False)
    assert "{'url': 'redis://localhost', 'concurrency': 10}" in found.hint
