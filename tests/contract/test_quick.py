"""`dev.py quick` finds the tests that a change affects, the nearest first."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "offsider"
TESTS = ROOT / "tests"


@pytest.fixture(scope="module")
def quick():
    spec = importlib.util.spec_from_file_location("quick", ROOT / "scripts" / "quick.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tests_that_import_the_changed_module_run_before_indirect_ones(quick):
    found = quick.affected([SOURCE / "web" / "display.py"])
    distances = {path: distance for distance, path in found}
    assert distances[TESTS / "unit" / "web" / "test_display.py"] == 1
    assert distances[TESTS / "redis" / "web" / "test_fleet.py"] > 1
    assert [distance for distance, _path in found] == sorted(distances.values())
    assert TESTS / "unit" / "core" / "test_payload.py" not in distances


def test_a_name_re_exported_by_a_package_leads_to_the_module_that_defines_it(quick):
    assert quick.defining_file("offsider", "Config") == quick.module_file("offsider.config.config")
    assert quick.defining_file("offsider.core", "errors") == SOURCE / "core" / "errors.py"


def test_a_lua_script_affects_the_tests_of_the_module_that_names_it(quick):
    affected = {path for _distance, path in quick.affected([SOURCE / "storage" / "lua" / "requeue.lua"])}
    assert TESTS / "redis" / "storage" / "test_working.py" in affected


def test_pages_dev_py_and_data_of_tests_affect_tests_too(quick):
    def affected(path):
        return {each for _distance, each in quick.affected([ROOT / path])}

    assert TESTS / "docs" / "test_links.py" in affected("docs/jobs.md")
    assert TESTS / "contract" / "test_dev.py" in affected("dev.py")
    assert TESTS / "contract" / "test_wire_format_dumps.py" in affected("tests/contract/sidekiq-8.1.7.json")


def test_a_test_that_was_deleted_does_not_run(quick):
    assert quick.affected([TESTS / "unit" / "core" / "test_gone.py"]) == []


def test_tests_that_start_programs_run_only_if_they_changed(quick):
    program_test = next((TESTS / "process" / "worker").glob("test_*.py"))
    assert program_test not in {path for _distance, path in quick.affected([SOURCE / "worker" / "launcher.py"])}
    assert (0, program_test) in quick.affected([program_test])
